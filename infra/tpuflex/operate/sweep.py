"""What stacks have left behind in a cloud project, who owns it, and whether to delete it. Pure.

Only resources that all four marks prove to belong to a known stack may be deleted
(:mod:`tpuflex.inventory.ownership`), and of those only the ones that no state records or has
pending. A running slice, and all that it needs, is spared unless it is named. Everything else with
our marker or one of our names is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.inventory import kinds
from tpuflex.inventory.ownership import Maker, claims, differences, reason
from tpuflex.naming import ENDPOINT_NAME, Names, account_email, fit, library_names, slug
from tpuflex.queued_resource.states import Lifecycle, describe, lifecycle

if TYPE_CHECKING:
    from tpuflex.inventory.cloud_resource import CloudResource
    from tpuflex.inventory.listing import Listing

_OVER = (Lifecycle.ENDED, Lifecycle.FAILED)
#: States of what computes and is billed: of a queued resource, and of a node.
_SLICE_RUNS, _NODE_RUNS = "ACTIVE", "READY"


class Disposition(StrEnum):
    """What may be done with something that has our marker or our name."""

    ORPHAN = "orphan"  #: ours, and no state knows it: it can be deleted
    RUNNING = "running"  #: the same, but it runs, or a slice that runs needs it
    QUOTA_ONLY = "quota only"  #: a state knows it, but it only uses quota
    FOREIGN = "foreign"  #: not proved to be ours
    LIBRARY = "library"  #: a library's bucket that no state here knows: no sweep deletes weights


@dataclass(frozen=True, slots=True)
class Leftover:
    """One resource that is left behind.

    Attributes:
        resource: the resource.
        maker: the endpoint that it belongs to, or that it looks like.
        disposition: what may be done with it.
        reason: why it is listed, in a few words.
        named: whether the user has named this slice, so that it may be deleted while it runs.
    """

    resource: CloudResource
    maker: Maker
    disposition: Disposition
    reason: str
    named: bool = False

    @property
    def stack(self) -> str:
        """The stack that it belongs to, or looks like."""
        return self.maker.names.stack

    def objection(self, now: CloudResource) -> str:
        """Why it may not be deleted as it is ``now``; empty if it may."""
        if runs(now) and not self.named:
            return f"it runs: to delete it, name it: --slice {now.name}"
        return ""


@dataclass(frozen=True, slots=True)
class Here:
    """What is known here.

    Attributes:
        project: Pulumi project.
        cloud_project: Google Cloud project id.
        number: number of that project; empty if it could not be told.
        stacks: stacks with a stack file, a state, or an id that was seen here.
        known: ids of everything that any state has, or has pending.
        states: by stack, the ids of its states, present ones and earlier ones.
    """

    project: str
    cloud_project: str
    number: str
    stacks: tuple[str, ...]
    known: frozenset[str]
    states: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def accounts(self) -> tuple[str, ...]:
        """Emails of the stacks' service accounts."""
        ids = (self.names(stack).service_account_id() for stack in self.stacks)
        return tuple(account_email(id_, self.cloud_project) for id_ in ids)

    def names(self, stack: str) -> Names:
        """The names of the endpoint of ``stack``."""
        return Names(self.project, stack, ENDPOINT_NAME)


def leftovers(
    listing: Listing, here: Here, slices: frozenset[str] = frozenset()
) -> tuple[Leftover, ...]:
    """What of ``listing`` is left behind, in the order of deletion.

    Args:
        listing: what the cloud project has.
        here: what is known here.
        slices: names of queued resources and nodes that may be deleted while they run.
    """
    judge = _Judge(listing, here, slices)
    judged = (judge.of(resource) for resource in listing.resources)
    found = _sparing([leftover for leftover in judged if leftover is not None])
    return tuple(sorted(found, key=_rank))


def runs(resource: CloudResource) -> bool:
    """Whether ``resource`` is a slice that runs, or a node of one."""
    if resource.kind == kinds.NODE:
        return resource.state == _NODE_RUNS
    return resource.kind == kinds.SLICE and resource.state == _SLICE_RUNS


def _rank(leftover: Leftover) -> tuple[int, str]:
    return kinds.deletion_rank(leftover.resource.kind), leftover.resource.name


class _Judge:
    """Judges the resources of one listing, one by one."""

    def __init__(self, listing: Listing, here: Here, slices: frozenset[str]) -> None:
        self._here = here
        self._slices = slices
        ids = (*here.known, *(resource.id for resource in listing.resources))
        self._holders = {_without_project(id_) for id_ in ids}
        stacks = dict.fromkeys((*here.stacks, *_labelled(listing, here)))
        self._makers = [self._maker(stack) for stack in stacks]
        self._library = Maker(
            library_names(here.cloud_project), here.cloud_project, here.number, frozenset()
        )
        self._project_label = fit(slug(here.project), 63)

    def of(self, resource: CloudResource) -> Leftover | None:
        """What may be done with ``resource``; None for what is none of ours or in use."""
        if resource.marker.owner == self._library.names.owner:
            return self._of_library(resource)
        maker = self._claimed(resource)
        if maker is None:
            return None
        if resource.id in self._here.known:
            return _quota_only(resource, maker)
        if resource.holder and _without_project(resource.holder) in self._holders:
            return None  # held by a queued resource that is listed, or known, itself
        if resource.member and _role_known(resource, self._here):
            return None
        if foreign := differences(resource, maker):
            return Leftover(resource, maker, Disposition.FOREIGN, reason(foreign))
        named = resource.name in self._slices
        return Leftover(resource, maker, Disposition.ORPHAN, _reason(resource), named)

    def _of_library(self, resource: CloudResource) -> Leftover | None:
        if resource.id in self._here.known:
            return None
        text = "a library's, which no state here knows: tpuflex library status"
        return Leftover(resource, self._library, Disposition.LIBRARY, text)

    def _claimed(self, resource: CloudResource) -> Maker | None:
        """The endpoint that ``resource`` has most marks of; None if it has none, or is of a kind
        that tpuflex never makes."""
        if not resource.kind.made:
            return None
        claimed = [maker for maker in self._makers if claims(resource, maker)]
        if not claimed and resource.marker.project == self._project_label:
            return self._maker(resource.marker.stack)
        return min(claimed, key=lambda maker: len(differences(resource, maker)), default=None)

    def _maker(self, stack: str) -> Maker:
        here = self._here
        states = here.states.get(stack, frozenset())
        return Maker(here.names(stack), here.cloud_project, here.number, states)


def _labelled(listing: Listing, here: Here) -> Iterator[str]:
    """The stacks of this project that labels name: the owner marker proves the spelling."""
    for resource in listing.resources:
        stack = resource.marker.stack
        if stack and resource.marker.owner == here.names(stack).owner:
            yield stack


def _sparing(found: list[Leftover]) -> list[Leftover]:
    """``found`` with every slice spared that runs and is not named, and with it all that belongs to
    the same endpoint: without its key, its weights or its network it would not serve."""
    running = {
        each.maker.names.owner: each.resource.name
        for each in found
        if runs(each.resource) and not (each.named and each.disposition is Disposition.ORPHAN)
    }

    def spared(leftover: Leftover) -> Leftover:
        name = running.get(leftover.maker.names.owner)
        if leftover.disposition is not Disposition.ORPHAN or name is None:
            return leftover
        if runs(leftover.resource):
            if leftover.named:
                return leftover
            text = f"{leftover.reason}; to delete it while it runs: --slice {name}"
        else:
            text = f"{name} needs it, which runs"
        return replace(leftover, disposition=Disposition.RUNNING, reason=text)

    return [spared(leftover) for leftover in found]


def _quota_only(resource: CloudResource, maker: Maker) -> Leftover | None:
    if resource.kind != kinds.SLICE or lifecycle(resource.state, None) not in _OVER:
        return None
    stack = maker.names.stack
    text = f"{describe(resource.state)}; stack {stack} knows it: tpuflex down --stack {stack}"
    return Leftover(resource, maker, Disposition.QUOTA_ONLY, text)


def _reason(resource: CloudResource) -> str:
    if resource.kind == kinds.NODE:
        return "orphaned node: no queued resource holds it, and it is billed"
    if resource.kind != kinds.SLICE:
        return "no state knows it"
    return f"no state knows it; {describe(resource.state)}"


def _without_project(id_: str) -> str:
    """An id without its project, which answers name by its id or by its number."""
    return id_.partition("/locations/")[2]


def _role_known(resource: CloudResource, here: Here) -> bool:
    return resource.id.replace("deleted:", "").partition("?")[0] in here.known
