"""How `tpuflex sweep` shows the leftovers, whose they are, and what became of each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.known_stacks import opened_stacks
from tpuflex.deploy.leftovers import require_none_left, sweep, sweep_projects
from tpuflex.operate.sweep import Disposition, Here, Leftover

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.leftovers import Swept
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output


def run_sweep(
    invocation: Invocation, cloud: Connection, slices: frozenset[str], *, exit_code: bool = False
) -> None:
    """List the resources that are in no stack's state, and with ``--yes`` delete what is ours.

    Args:
        invocation: the command.
        cloud: the cloud of the stack.
        slices: names of queued resources and nodes that may be deleted while they run.
        exit_code: whether it is an error that something is there that no state knows.

    Raises:
        IncompleteTeardownError: something could not be deleted, or could not be listed.
    """
    output, deletes = invocation.output, invocation.yes
    swept = sweep(cloud, invocation.report, slices=slices, deletes=deletes)
    output.document(swept.to_json())
    show_swept(output, swept)
    if swept.orphans and not deletes:
        output.result()
        advice = Advice("Nothing was deleted. To delete the orphans: {sweep} --yes")
        output.result(advice.for_stack(swept.stack, invocation.environ))
    require_none_left(swept, deletes=deletes, strict=exit_code)


def run_sweep_all(invocation: Invocation, slices: frozenset[str], *, exit_code: bool) -> int:
    """The same in every cloud project of the stack files; gives the exit code."""
    output = invocation.output
    swept = sweep_projects(
        opened_stacks(invocation.project, invocation.open_named),
        partial(invocation.connect, start=False),
        invocation.environ,
        invocation.report,
        slices=slices,
        deletes=invocation.yes,
        strict=exit_code,
    )
    for each in swept.projects:
        output.heading(f"Project {each.here.cloud_project}")
        show_swept(output, each)
        output.result()
    output.document(swept.to_json())
    for failure in swept.failures:
        output.progress(f"Error: {failure.where}: {failure.error.message}")
        if failure.hint:
            output.progress(failure.hint)
    if not swept.projects and not swept.failures:
        output.result("No stack of this project is in a cloud that can be looked at.")
    return swept.exit_code


def show_swept(output: Output, swept: Swept) -> None:
    """Print the leftovers of one cloud project, and what became of each."""
    problems = {id(item.leftover): item.problem for item in swept.deleted}
    if swept.left:
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
                for each in swept.left
            ],
        )
        for line in _foreign(swept.here, swept.left):
            output.result(line)
    elif not swept.listing.unlisted:
        output.result(
            f"Nothing is left behind in {swept.here.cloud_project}: every service was asked."
        )


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
                "Who works on the same stack shares its state: `tpuflex docs working-together`. "
                "A state of yours that is lost is rebuilt by "
                + Advice("`{recover} --take-over`").for_stack(stack, os.environ)
                + "; `down` then deletes what it had made."
            )
    if "" in makers:
        yield ""
        yield "What carries no state id is not known to be ours: delete it by hand if it is."
