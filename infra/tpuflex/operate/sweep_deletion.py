"""Deletion of what stacks have left behind, in the order of the kinds, until it is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError
from tpuflex.inventory import kinds
from tpuflex.inventory.kinds import NODE, SLICE
from tpuflex.inventory.removal import gone, remove

if TYPE_CHECKING:
    from tpuflex.google.apis import Apis
    from tpuflex.google.timing import Timing
    from tpuflex.operate.sweep import Leftover

#: Seconds that the deletion of one kind may take: a queued resource that is being provisioned
#: cannot be deleted for a while, so it is asked for again.
_PATIENCE = 600.0
_SHORTEST_POLL = 0.2
_LONGEST_POLL = 15.0
_POLL_GROWTH = 0.1


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
    timing: Timing,
) -> tuple[Deleted, ...]:
    """Delete and wait until each is gone; one that cannot be deleted does not stop the others.

    Args:
        to_delete: what to delete, in whatever order.
        apis: clients.
        say: takes a line of progress.
        timing: clock and pauses.
    """
    waiting = list(to_delete)
    done: list[Deleted] = []
    for kind in kinds.KINDS:
        group = [leftover for leftover in waiting if leftover.resource.kind == kind]
        kept, unused = _split(group, done)
        done += kept
        done += _delete_group(unused, apis, say, timing)
    return tuple(done)


def _split(group: list[Leftover], done: Iterable[Deleted]) -> tuple[list[Deleted], list[Leftover]]:
    """What of ``group`` a slice needs that could not be deleted, and the rest."""
    there = {
        each.leftover.maker.names.owner: each.leftover.resource.name
        for each in done
        if each.problem and each.leftover.resource.kind in (SLICE, NODE)
    }
    kept: list[Deleted] = []
    unused: list[Leftover] = []
    for leftover in group:
        name = there.get(leftover.maker.names.owner)
        if name is None or leftover.resource.kind in (SLICE, NODE):
            unused.append(leftover)
        else:
            kept.append(Deleted(leftover, f"{name} needs it, and is still there"))
    return kept, unused


def _delete_group(
    group: list[Leftover], apis: Apis, say: Callable[[str], None], timing: Timing
) -> list[Deleted]:
    """Delete resources of one kind side by side."""
    started = timing.monotonic()
    deletions = [_Deletion(leftover) for leftover in group]
    while True:
        for deletion in deletions:
            if not deletion.over:
                deletion.step(apis, say)
        passed = timing.monotonic() - started
        if all(deletion.over for deletion in deletions) or passed >= _PATIENCE:
            return [Deleted(deletion.leftover, deletion.result) for deletion in deletions]
        timing.pause(min(_LONGEST_POLL, max(_SHORTEST_POLL, passed * _POLL_GROWTH)))


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
                remove(resource, self.leftover.maker, apis, self.leftover.objection)
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
            say(f"  gone     {resource.title}")
