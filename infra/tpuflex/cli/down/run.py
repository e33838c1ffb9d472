"""How `tpuflex down` shows the teardown of one stack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.purge import nothing_text, purge_text
from tpuflex.deploy.teardown import DownPlan, down, plan_down
from tpuflex.deploy.teardown_proof import foreign_lines

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.teardown import Planned
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Progress
    from tpuflex.terminal.output import Output


def run_down(
    invocation: Invocation,
    cloud: Connection,
    *,
    dry_run: bool,
    purge_weights: bool = False,
    expected: str = "",
) -> None:
    """Destroy the stack of ``cloud``, or with ``dry_run`` only show what would be destroyed;
    ``expected`` is as for :func:`down`."""
    output = invocation.output
    if dry_run:
        plan = plan_down(cloud, invocation.report, purge_weights=purge_weights)
        show_plan(output, plan)
        output.document(plan.to_json())
        return

    def report(progress: Progress | DownPlan) -> None:
        if isinstance(progress, DownPlan):
            show_plan(output, progress)
        else:
            invocation.report(progress)

    done = down(
        cloud,
        report,
        consent=invocation.consent,
        purge_weights=purge_weights,
        expected=expected,
    )
    _show_left(output, done.plan.planned, cloud.stack.name)
    output.document(done.to_json())
    for there, removal in done.purged:
        output.result(f"Removed: gs://{there.bucket}/{removal.prefix}.")
    if done.kept.line:
        line = Advice.of(done.kept.line)
        output.result(line.for_stack(cloud.stack.name, invocation.environ))
    if done.failed is not None:
        raise done.failed


def show_plan(output: Output, plan: DownPlan) -> None:
    """List what will be destroyed, what not, and what it has cost."""
    stack, planned = plan.home.cloud.stack, plan.planned
    for line in foreign_lines(planned.before):
        output.result(line)
    if planned.nothing:
        output.result(f"Stack {stack.name} is not up: there is nothing to destroy.")
    else:
        output.heading(f"To be destroyed: stack {stack.name}")
        output.table(
            # The long column last: on a narrow terminal only that one wraps.
            ("KIND", "LOCATION", "STATE", "NAME"),
            [(item.kind, item.location, item.detail, item.name) for item in planned.to_destroy],
        )
        for line in planned.unlisted_lines(stack.settings.project):
            output.result(line)
        pushed = "what was pushed goes with the bucket" if plan.own_weights_go else ""
        output.facts((("cost so far", plan.cost), ("weights", pushed)))
        output.result()
    for line in planned.kept_lines():
        output.result(line)
    if plan.weights is not None:
        output.result(purge_text(plan.home, plan.weights))
    elif plan.purges:
        output.result(nothing_text(plan.home))
    for there, copy in plan.copies:
        output.result(purge_text(there, copy))


def _show_left(output: Output, planned: Planned, name: str) -> None:
    """Say that the stack is gone."""
    items = planned.before.items
    if not planned.plan.changes and not items:
        return
    if kinds := dict.fromkeys(item.kind for item in items):
        output.result("Inventory now: " + ", ".join(f"{kind} 0" for kind in kinds))
    output.result(f"Nothing is left of stack {name}: every service was asked.")
