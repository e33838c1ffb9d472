"""How `tpuflex up` asks, and what it shows on the way and at the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.cli.stack_plan import show_plan
from tpuflex.deploy.approval import Approval
from tpuflex.deploy.plan import StackPlan
from tpuflex.deploy.stack_up import up
from tpuflex.settings.rules import warnings
from tpuflex.terminal.boot_bars import boot_bars
from tpuflex.terminal.money import price_text
from tpuflex.terminal.output import moment_text

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.stack_up import UpResult
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Progress
    from tpuflex.terminal.output import Output

_ANY_PLAN = Approval()


def run_up(
    invocation: Invocation,
    cloud: Connection,
    accepted_weights: str | None = None,
    *,
    missing_allowed: bool = False,
    skipped_checks: Collection[str] = (),
    new_host: bool = False,
    approval: Approval = _ANY_PLAN,
    refresh: bool = False,
) -> None:
    """Bring the stack of ``cloud`` up, as :func:`up`, and show the endpoint."""
    output = invocation.output

    def report(told: Progress | StackPlan) -> None:
        if not isinstance(told, StackPlan):
            invocation.report(told)
            return
        show_plan(output, told)
        if not output.json:  # the plan shows them; the program tells them again
            invocation.report.shown(str(warning) for warning in warnings(told.stack.settings))

    result = up(
        cloud,
        report,
        consent=invocation.consent,
        accepted_weights=accepted_weights,
        missing_allowed=missing_allowed,
        skipped_checks=skipped_checks,
        new_host=new_host,
        approval=approval,
        refresh=refresh,
    )
    output.document(result.to_json())
    if result.run_over:
        _show_accepted_end(output, result, invocation.environ)
    else:
        show_endpoint(output, result, invocation.environ)


def show_endpoint(output: Output, result: UpResult, environ: Mapping[str, str]) -> None:
    """Print the endpoint and the commands to use it with."""
    stack, status = result.stack, result.slice
    output.result()
    rehearsed = "rehearsal: " if stack.rehearsed else ""
    asked = result.health
    unasked = asked is not None and asked.answers is None
    served = ", as its host says" if unasked else ": a completion was served"
    output.heading(f"{rehearsed}READY{served}")
    host = None if status is None else status.host
    bars = boot_bars(host, result.at.timestamp(), plain=output.ascii_only)
    expires = None if status is None else status.expires
    output.facts(
        (
            ("endpoint", result.endpoint or ""),
            ("answers", "" if asked is None else str(asked)),
            ("model", stack.settings.model.name),
            ("expires", moment_text(expires, result.at)),
            ("price", price_text(result.cost)),
            ("boot", bars),
        )
    )
    output.result()
    commands = Advice(
        'Next: {ask} "your question"\n      {client}  # for curl, Python and TypeScript\n'
        "      {status}\n      {down}"
    )
    output.result(commands.for_stack(stack.name, environ))


def _show_accepted_end(output: Output, result: UpResult, environ: Mapping[str, str]) -> None:
    """Print that nothing serves any more, as `on_run_end` has it, and what would change that."""
    output.progress(f"warning: {result.run_over}.")
    output.result()
    output.heading("Nothing serves: the run is over")
    commands = Advice("For a new run: {up} --new-host\nTo clean up: {down}")
    output.result(commands.for_stack(result.stack.name, environ))
