"""`tpuflex doctor`: examine everything, show it, exit with its code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.doctor.check import Check, Standing, summary
from tpuflex.doctor.examine import examine
from tpuflex.errors import TpuflexError

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.stack import Stack

#: Columns of a line of text, and the fewest that it gets; commands stay whole, to be copied.
_WIDTH, _NARROWEST = 100, 40


def run(invocation: Invocation) -> int:
    """Examine the stack, or what there is without one, and show it; the exit code."""
    output = invocation.output
    report = examine(
        _stack(invocation),
        invocation.environ,
        invocation.directory,
        output.progress,
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
    """Print ``checks``, which are in groups, and their summary."""
    output = invocation.output
    standing = max(map(len, Standing))
    for group, members in groupby(checks, lambda check: check.group):
        listed = list(members)
        width = max(len(check.name) for check in listed)
        indent = " " * (standing + width + 6)
        output.heading(group)
        for check in listed:
            text = Advice.of(check.text).for_stack(invocation.stack, invocation.environ)
            lines = [part for line in text.splitlines() for part in _wrapped(line, len(indent))]
            start = f"  {check.standing:<{standing}}  {check.name:<{width}}  "
            output.result(start + f"\n{indent}".join(lines))
            if check.remedy:
                remedy = Advice.of(check.remedy).for_stack(invocation.stack, invocation.environ)
                output.result(f"{indent}-> " + remedy.replace("\n", f"\n{indent}   "))
        output.result()
    output.result(summary(checks))


def _wrapped(line: str, indent: int) -> list[str]:
    """``line`` as lines that fit beside ``indent`` columns; a URL or a path stays whole."""
    return wrap(
        line, max(_WIDTH - indent, _NARROWEST), break_long_words=False, break_on_hyphens=False
    )
