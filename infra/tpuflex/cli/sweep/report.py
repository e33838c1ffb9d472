"""What `tpuflex sweep` prints: the leftovers, whose they are, and what became of each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.operate.sweep import Disposition, Here, Leftover, runs

if TYPE_CHECKING:
    from tpuflex.inventory.listing import Listing
    from tpuflex.operate.sweep_deletion import Deleted
    from tpuflex.terminal.output import Output


def document(
    here: Here,
    left: tuple[Leftover, ...],
    deleted: tuple[Deleted, ...],
    listing: Listing,
) -> dict[str, object]:
    """The leftovers of one cloud project as JSON, and what became of each."""
    problems = {id(item.leftover): item.problem for item in deleted}
    return {
        "project": here.cloud_project,
        "complete": not listing.unseen,
        "unseen": list(listing.unseen),
        "state_ids": {stack: sorted(ids) for stack, ids in here.states.items()},
        "leftovers": [_entry(each, problems.get(id(each))) for each in left],
    }


def show(
    output: Output,
    here: Here,
    left: tuple[Leftover, ...],
    deleted: tuple[Deleted, ...],
    listing: Listing,
) -> None:
    """Print the leftovers, and what became of each."""
    problems = {id(item.leftover): item.problem for item in deleted}
    if left:
        output.table(
            ("KIND", "NAME", "LOCATION", "STATE", "STACK", "WHY"),
            [
                (
                    each.resource.kind.name,
                    each.resource.name,
                    each.resource.location,
                    each.resource.state,
                    each.stack,
                    problems.get(id(each), _why(each)) or "deleted",
                )
                for each in left
            ],
        )
        for line in _foreign(here, left):
            output.result(line)
    elif not listing.unseen:
        output.result(f"Nothing is left behind in {here.cloud_project}: every service was asked.")


def _entry(leftover: Leftover, problem: str | None) -> dict[str, object]:
    """One leftover as JSON; ``problem`` is None if it was not tried, empty if it is gone."""
    resource = leftover.resource
    return {
        "kind": resource.kind.name,
        "name": resource.name,
        "location": resource.location,
        "stack": leftover.stack,
        "owner": resource.marker.owner or None,
        "state_id": resource.marker.state_id or None,
        "state": resource.state or None,
        "standing": leftover.disposition.value,
        "reason": leftover.reason,
        "deleted": problem == "",
        "problem": problem or None,
    }


def _why(leftover: Leftover) -> str:
    if leftover.disposition is Disposition.FOREIGN:
        return f"not proved ours: {leftover.reason}"
    return leftover.reason


def _foreign(here: Here, left: Iterable[Leftover]) -> Iterable[str]:
    """Whose the foreign resources are, and what to do about them."""
    foreign = [each for each in left if each.disposition is Disposition.FOREIGN]
    known = frozenset(id_ for ids in here.states.values() for id_ in ids)
    makers = {each.resource.marker.state_id: each.stack for each in foreign}
    for state_id, stack in makers.items():
        if state_id and state_id not in known:
            yield ""
            yield (
                f"State {state_id} of stack {stack}, project {here.project}, is kept elsewhere. "
                'Who works on the same stack shares its state: "Working together" in README.md. '
                "A state of yours that is lost is rebuilt by "
                + Advice("`{recover} --take-over`").for_stack(stack, os.environ)
                + "; `down` then deletes what it had made."
            )
    if "" in makers:
        yield ""
        yield "What carries no state id is not known to be ours: delete it by hand if it is."


def sweep_command(these: Sequence[Leftover]) -> Advice:
    """The command that deletes ``these``, as far as they are ours: it names each slice that
    runs."""
    ours = (each for each in these if each.disposition is not Disposition.FOREIGN)
    slices = dict.fromkeys(each.resource.name for each in ours if runs(each.resource))
    return Advice("{sweep} --yes{slices}", slices="".join(f" --slice {name}" for name in slices))
