"""What stacks have left behind in a cloud project: found by marker, known by no state.

Three things keep it from deleting what is in use: what any state knows (or has pending) is
left alone; so is what belongs to a Pulumi project, or a stack, that is not known here; and the
marker of each resource is read once more right before it is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError
from tpuflex.gcp import kinds
from tpuflex.gcp.listing import Apis, CloudResource, Listing
from tpuflex.gcp.removal import gone, remove
from tpuflex.naming import ENDPOINT_NAME, Names, account_email, fit, slug
from tpuflex.request.states import Lifecycle, describe, lifecycle

#: Seconds that the deletion of one kind may take: a queued resource that is being provisioned
#: cannot be deleted for a while, so it is asked for again.
_PATIENCE = 600.0
_SHORTEST_POLL = 0.2
_LONGEST_POLL = 15.0
_POLL_GROWTH = 0.1
_OVER = (Lifecycle.ENDED, Lifecycle.FAILED)


class Disposition(StrEnum):
    """What may be done with something that carries our marker."""

    ORPHAN = "orphan"  #: no state knows it: it can be deleted
    QUOTA_ONLY = "quota only"  #: a state knows it, but it only uses quota
    UNKNOWN_STACK = "unknown stack"  #: of a stack that is not known here


@dataclass(frozen=True, slots=True)
class Leftover:
    """One resource that is left behind.

    Attributes:
        resource: the resource.
        stack: the stack that it belongs to, as far as known.
        disposition: what may be done with it.
        reason: why it is listed, in a few words.
    """

    resource: CloudResource
    stack: str
    disposition: Disposition
    reason: str


@dataclass(frozen=True, slots=True)
class Here:
    """What is known here.

    Attributes:
        project: Pulumi project.
        cloud_project: Google Cloud project id.
        stacks: stacks with a stack file or a state.
        known: ids of everything that any state has, or has pending.
    """

    project: str
    cloud_project: str
    stacks: tuple[str, ...]
    known: frozenset[str]

    @property
    def owners(self) -> Mapping[str, str]:
        """Stack by owner marker."""
        return {Names(self.project, s, ENDPOINT_NAME).owner: s for s in self.stacks}

    @property
    def accounts(self) -> Mapping[str, str]:
        """Owner marker by the email of the stack's service account."""
        names = [Names(self.project, stack, ENDPOINT_NAME) for stack in self.stacks]
        return {account_email(n.service_account_id(), self.cloud_project): n.owner for n in names}


def leftovers(listing: Listing, here: Here) -> tuple[Leftover, ...]:
    """What of ``listing`` is left behind, in the order of deletion."""
    ids = (*here.known, *(resource.id for resource in listing.resources))
    holders = {_without_project(id_) for id_ in ids}
    judged = (_judge(resource, here, holders) for resource in listing.resources)
    found = [leftover for leftover in judged if leftover is not None]
    return tuple(sorted(found, key=_rank))


def _rank(leftover: Leftover) -> tuple[int, str]:
    return kinds.deletion_rank(leftover.resource.kind), leftover.resource.name


def _judge(resource: CloudResource, here: Here, holders: Collection[str]) -> Leftover | None:
    stack = here.owners.get(resource.owner, "")
    if not stack and resource.project != fit(slug(here.project), 63):
        return None  # another project's, or it cannot be told whose
    stack = stack or resource.stack
    if resource.id in here.known:
        return _quota_only(resource, stack)
    if resource.holder and _without_project(resource.holder) in holders:
        return None  # held by a queued resource that is listed, or known, itself
    if resource.member and _role_known(resource, here):
        return None
    if stack not in here.stacks and not _stack_by_label(stack, here):
        reason = f"stack {stack} has neither a stack file nor a state here"
        return Leftover(resource, stack, Disposition.UNKNOWN_STACK, reason)
    return Leftover(resource, stack, Disposition.ORPHAN, _reason(resource))


def _quota_only(resource: CloudResource, stack: str) -> Leftover | None:
    if resource.kind != kinds.SLICE or lifecycle(resource.state, None) not in _OVER:
        return None
    reason = f"{describe(resource.state)}; stack {stack} knows it: tpuflex down --stack {stack}"
    return Leftover(resource, stack, Disposition.QUOTA_ONLY, reason)


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


def _stack_by_label(stack: str, here: Here) -> bool:
    return stack in {fit(slug(known), 63) for known in here.stacks}


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of one leftover: gone if ``problem`` is empty."""

    leftover: Leftover
    problem: str = ""


def delete(
    to_delete: Iterable[Leftover],
    apis: Apis,
    *,
    say: Callable[[str], None],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[Deleted, ...]:
    """Delete and wait until each is gone; one that cannot be deleted does not stop the others.

    Args:
        to_delete: what to delete, in whatever order.
        apis: clients.
        say: takes a line of progress.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
    """
    waiting = list(to_delete)
    done: list[Deleted] = []
    for kind in kinds.KINDS:
        group = [leftover for leftover in waiting if leftover.resource.kind == kind]
        done += _delete_group(group, apis, say, now, sleep)
    return tuple(done)


def _delete_group(
    group: list[Leftover],
    apis: Apis,
    say: Callable[[str], None],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> list[Deleted]:
    """Delete resources of one kind side by side."""
    started = now()
    deletions = [_Deletion(leftover) for leftover in group]
    while True:
        for deletion in deletions:
            if not deletion.over:
                deletion.step(apis, say)
        passed = now() - started
        if all(deletion.over for deletion in deletions) or passed >= _PATIENCE:
            return [Deleted(deletion.leftover, deletion.result) for deletion in deletions]
        sleep(min(_LONGEST_POLL, max(_SHORTEST_POLL, passed * _POLL_GROWTH)))


@dataclass
class _Deletion:
    """The deletion of one resource."""

    leftover: Leftover
    accepted: bool = False
    over: bool = False
    problem: str = ""

    @property
    def result(self) -> str:
        """What went wrong; empty when it is gone."""
        return self.problem or ("" if self.over else "it is still there")

    def step(self, apis: Apis, say: Callable[[str], None]) -> None:
        """Ask for the deletion until it is accepted, then look until it is gone."""
        resource = self.leftover.resource
        try:
            if not self.accepted:
                remove(resource, apis)
                self.accepted, self.problem = True, ""
            self.over = gone(resource, apis)
        except NotFoundError:
            self.over, self.problem = True, ""
        except ConflictError as error:
            self.problem = error.message  # perhaps later
        except (AccessError, ApiError) as error:
            self.over, self.problem = True, error.message
            return
        if self.over:
            say(f"  gone     {resource.kind.name} {resource.name}")
