"""What stacks have left behind in a cloud project: found by marker, known by no state.

Three things keep it from deleting what is in use: what any state knows (or has pending) is
left alone; so is what belongs to a Pulumi project, or a stack, that is not known here; and each
thing's marker is read once more right before it is deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError
from tpuflex.naming import ENDPOINT_NAME, Names, fit, slug
from tpuflex.request.states import Lifecycle, describe, lifecycle

if TYPE_CHECKING:
    from tpuflex.gcp.inventory import Apis
    from tpuflex.gcp.marked import Listing, Marked

#: In this order: what costs most first, and what is in use after what uses it.
_ORDER = (
    "queued resource",
    "node",
    "project role",
    "firewall rule",
    "router",
    "subnetwork",
    "network",
    "service account",
    "bucket",
    "secret",
)
#: Seconds that the deletion of one kind may take: a queued resource that is being provisioned
#: cannot be deleted for a while, so it is asked for again.
_PATIENCE = 600.0
_SHORTEST_POLL = 0.2
_LONGEST_POLL = 15.0
_POLL_GROWTH = 0.1
_HUSKS = (Lifecycle.ENDED, Lifecycle.FAILED)


class Standing(StrEnum):
    """What may be done with something that carries our marker."""

    ORPHAN = "orphan"  #: no state knows it: it can be deleted
    HUSK = "husk"  #: a state knows it, but it only uses quota
    STRANGE = "unknown stack"  #: of a stack that is not known here


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that stands out.

    Attributes:
        item: the thing.
        stack: the stack that it belongs to, as far as known.
        standing: what may be done with it.
        reason: why it is listed, in a few words.
    """

    item: Marked
    stack: str
    standing: Standing
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
        domain = f"{self.cloud_project}.iam.gserviceaccount.com"
        names = [Names(self.project, stack, ENDPOINT_NAME) for stack in self.stacks]
        return {f"{n.service_account_id()}@{domain}": n.owner for n in names}


def leftovers(listing: Listing, here: Here) -> tuple[Leftover, ...]:
    """What of ``listing`` stands out, what is to be deleted first at the front."""
    holders = {_tail(id_) for id_ in (*here.known, *(item.id for item in listing.found))}
    judged = (_judge(item, here, holders) for item in listing.found)
    found = [leftover for leftover in judged if leftover is not None]
    return tuple(sorted(found, key=lambda one: (_ORDER.index(one.item.kind), one.item.name)))


def _judge(item: Marked, here: Here, holders: Collection[str]) -> Leftover | None:
    stack = here.owners.get(item.owner, "")
    if not stack and item.project != fit(slug(here.project), 63):
        return None  # another project's, or nobody's that can be told
    stack = stack or item.stack
    if item.id in here.known:
        return _husk(item, stack)
    if item.holder and item.kind == "node" and _tail(item.holder) in holders:
        return None  # held by a queued resource that is listed, or known, itself
    if item.kind == "project role" and _role_known(item, here):
        return None
    if stack not in here.stacks and not _stack_by_label(stack, here):
        reason = f"stack {stack} has neither a stack file nor a state here"
        return Leftover(item, stack, Standing.STRANGE, reason)
    return Leftover(item, stack, Standing.ORPHAN, _why(item))


def _husk(item: Marked, stack: str) -> Leftover | None:
    if item.kind != "queued resource" or lifecycle(item.state, None) not in _HUSKS:
        return None
    reason = f"{describe(item.state)}; stack {stack} knows it: tpuflex down --stack {stack}"
    return Leftover(item, stack, Standing.HUSK, reason)


def _why(item: Marked) -> str:
    if item.kind == "node":
        return "orphaned node: no queued resource holds it, and it is billed"
    if item.kind != "queued resource":
        return "no state knows it"
    return f"no state knows it; {describe(item.state)}"


def _tail(id_: str) -> str:
    """An id without its project, which answers spell by id or by number."""
    return id_.partition("/locations/")[2]


def _role_known(item: Marked, here: Here) -> bool:
    return item.id.replace("deleted:", "").partition("?")[0] in here.known


def _stack_by_label(stack: str, here: Here) -> bool:
    return stack in {fit(slug(known), 63) for known in here.stacks}


@dataclass(frozen=True, slots=True)
class Deleted:
    """What became of one leftover: gone if ``problem`` is empty."""

    leftover: Leftover
    problem: str = ""


def delete(
    condemned: Iterable[Leftover],
    apis: Apis,
    *,
    say: Callable[[str], None],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[Deleted, ...]:
    """Delete and wait until each is gone; one that cannot be deleted does not stop the others.

    Args:
        condemned: what to delete, in the order of :func:`leftovers`.
        apis: clients.
        say: takes a line of progress.
        now: a monotonic clock in seconds.
        sleep: waits that many seconds.
    """
    waiting = list(condemned)
    done: list[Deleted] = []
    for kind in _ORDER:
        group = [leftover for leftover in waiting if leftover.item.kind == kind]
        done += _delete_group(group, apis, say, now, sleep)
    return tuple(done)


def _delete_group(
    group: list[Leftover],
    apis: Apis,
    say: Callable[[str], None],
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> list[Deleted]:
    """Delete things of one kind side by side."""
    started = now()
    tries = [_Try(leftover) for leftover in group]
    while True:
        for attempt in tries:
            if not attempt.over:
                attempt.step(apis, say)
        passed = now() - started
        if all(attempt.over for attempt in tries) or passed >= _PATIENCE:
            return [Deleted(attempt.leftover, attempt.outcome) for attempt in tries]
        sleep(min(_LONGEST_POLL, max(_SHORTEST_POLL, passed * _POLL_GROWTH)))


@dataclass
class _Try:
    """The deletion of one thing."""

    leftover: Leftover
    accepted: bool = False
    over: bool = False
    problem: str = ""

    @property
    def outcome(self) -> str:
        """What went wrong; empty when it is gone."""
        return self.problem or ("" if self.over else "it is still there")

    def step(self, apis: Apis, say: Callable[[str], None]) -> None:
        """Ask for the deletion until it is accepted, then look until it is gone."""
        from tpuflex.gcp.removal import gone, remove

        item = self.leftover.item
        try:
            if not self.accepted:
                remove(item, apis)
                self.accepted, self.problem = True, ""
            self.over = gone(item, apis)
        except NotFoundError:
            self.over, self.problem = True, ""
        except ConflictError as error:
            self.problem = error.message  # perhaps later
        except (AccessError, ApiError) as error:
            self.over, self.problem = True, error.message
            return
        if self.over:
            say(f"  gone     {item.kind} {item.name}")
