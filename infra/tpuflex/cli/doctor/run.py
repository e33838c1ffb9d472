"""`tpuflex doctor`: examine everything, show it, exit with its code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.doctor.check import Cause, Check, Standing, causes, summary
from tpuflex.doctor.examine import examine
from tpuflex.errors import TpuflexError
from tpuflex.stack.progress import working

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.stack import Stack

_TITLES = {
    Standing.FAILED: "Failed",
    Standing.WARNING: "Warnings",
    Standing.UNKNOWN: "Unknown",
    Standing.OK: "In order",
    Standing.SKIPPED: "Skipped",
}


def run(invocation: Invocation) -> int:
    """Examine the stack, or what there is without one, and show it; the exit code."""
    output = invocation.output
    with working(invocation.report, "Examining"):
        report = examine(
            _stack(invocation),
            invocation.environ,
            invocation.directory,
            invocation.report,
            named=bool(invocation.chosen_stack),
        )
    output.document(report.to_json())
    show(invocation, report.checks)
    return report.exit_code


def _stack(invocation: Invocation) -> Stack | TpuflexError:
    try:
        return invocation.open_stack()
    except TpuflexError as error:
        return error


def show(invocation: Invocation, checks: Sequence[Check]) -> None:
    """Print why ``checks`` do not stand well, each cause once, then what is in order, and their
    summary."""
    output = invocation.output
    for standing, found in groupby(causes(checks), lambda cause: cause.standing):
        output.heading(_TITLES[standing])
        for cause in found:
            _show_cause(invocation, cause)
        output.result()
    for standing in (Standing.OK, Standing.SKIPPED):
        _show_rest(invocation, standing, [each for each in checks if each.standing is standing])
    output.result(summary(checks))


def _show_cause(invocation: Invocation, cause: Cause) -> None:
    output = invocation.output
    names = ", ".join(check.name for check in cause.checks)
    output.result(f"  {names}: {_text(invocation, cause.checks[0].text)}", hanging="    ")
    if cause.hidden:
        beside = ", ".join(check.name for check in cause.hidden)
        output.result(f"    before that, nothing is known of: {beside}")
    if remedy := _text(invocation, cause.remedy):
        output.result("    -> " + remedy.replace("\n", "\n       "))


def _show_rest(invocation: Invocation, standing: Standing, checks: Sequence[Check]) -> None:
    """Print what there is nothing to do about; of what is in order the names, unless --verbose."""
    output = invocation.output
    if not checks:
        return
    output.heading(_TITLES[standing])
    if standing is Standing.OK and not output.verbose:
        output.result("  " + ", ".join(check.name for check in checks))
    else:
        for check in checks:
            output.result(f"  {check.name}: {_text(invocation, check.text)}", hanging="    ")
    output.result()


def _text(invocation: Invocation, advice: Advice | str) -> str:
    return Advice.of(advice).for_stack(invocation.stack, invocation.environ)
