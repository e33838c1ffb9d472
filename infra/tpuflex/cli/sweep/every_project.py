"""The steps of `tpuflex sweep --all`: every cloud project that the project's stacks are in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.cli.sweep.run import (
    Swept,
    delete_orphans,
    look,
    require_none_left,
    require_slices,
)
from tpuflex.deploy.known_stacks import opened_stacks
from tpuflex.errors import EmulatorError, TpuflexError

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output


@dataclass(frozen=True, slots=True)
class Place:
    """One cloud project, and the stacks in it."""

    cloud: str
    project: str
    stacks: tuple[Stack, ...]

    @property
    def zones(self) -> tuple[str, ...]:
        """The zones in which its stacks ask for capacity."""
        return tuple(dict.fromkeys(z for each in self.stacks for z in each.settings.slice.zones))


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one cloud project, or with one stack file.

    Attributes:
        where: the cloud project, or the stack.
        stack: the stack that commands in advice name.
        error: what went wrong.
    """

    where: str
    stack: str
    error: TpuflexError

    @property
    def hint(self) -> str:
        """What to do about it."""
        return self.error.hint.for_stack(self.stack, os.environ)

    def to_json(self) -> dict[str, str]:
        """It in the document of ``--json``."""
        return {"where": self.where, "message": self.error.message, "hint": self.hint}


def run_sweep_all(invocation: Invocation, slices: frozenset[str], *, exit_code: bool) -> int:
    """List what no state knows in every cloud project of the stack files; with ``--yes`` delete
    what is ours. A project that cannot be looked at does not stop the others. Gives the exit code:
    the highest of the projects.

    Args:
        invocation: the command.
        slices: names of queued resources and nodes that may be deleted while they run.
        exit_code: whether it is an error that something is there that no state knows.

    Raises:
        NotFoundError: a slice was named that is not left behind; nothing was deleted.
        IncompleteTeardownError: the same, and the list is incomplete.
    """
    places, failures = _places(invocation)
    found = list(_looked(invocation, places, slices, failures))
    require_slices(slices, found)
    if invocation.yes:
        found = [delete_orphans(invocation, each) for each in found]
    for swept in found:
        try:
            require_none_left(invocation, swept, exit_code=exit_code)
        except TpuflexError as error:
            failures.append(Failure(swept.here.cloud_project, swept.stack, error))
    return _show(invocation.output, found, failures)


def _looked(
    invocation: Invocation,
    places: Iterable[Place],
    slices: frozenset[str],
    failures: list[Failure],
) -> Iterator[Swept]:
    """What is left behind in each of ``places``; adds to ``failures`` where it cannot be told."""
    for place in places:
        stack = place.stacks[0]
        try:
            cloud = invocation.connect(stack, start=False)
            yield look(invocation, cloud, slices, place.zones)
        except EmulatorError as error:
            # Nothing of a cloud that is not running runs, and nothing of it is ever billed.
            invocation.output.progress(f"Not looked at: the embedded cloud: {error.message}")
        except TpuflexError as error:
            failures.append(Failure(place.project, stack.name, error))


def _show(output: Output, found: list[Swept], failures: list[Failure]) -> int:
    """Print everything, and give the exit code."""
    for swept in found:
        output.heading(f"Project {swept.here.cloud_project}")
        swept.show(output)
        output.result()
    code = max((each.error.exit_code for each in failures), default=0)
    output.document(
        {
            "exit_code": code,
            "projects": [swept.document() for swept in found],
            "errors": [each.to_json() for each in failures],
        }
    )
    for each in failures:
        output.progress(f"Error: {each.where}: {each.error.message}")
        if each.hint:
            output.progress(each.hint)
    if not found and not failures:
        output.result("No stack of this project is in a cloud that can be looked at.")
    return code


def _places(invocation: Invocation) -> tuple[tuple[Place, ...], list[Failure]]:
    """The cloud projects, and the stack files that cannot be read: what is in theirs stays
    unseen."""
    by_place: dict[tuple[str, str], list[Stack]] = {}
    broken: list[Failure] = []
    for known in opened_stacks(invocation.project, invocation.open_named):
        if known.stack is None:
            if known.error is not None:
                broken.append(Failure(known.name, known.name, known.error))
            continue
        settings = known.stack.settings
        by_place.setdefault((settings.cloud, settings.project), []).append(known.stack)
    places = (Place(*key, tuple(stacks)) for key, stacks in sorted(by_place.items()))
    return tuple(places), broken
