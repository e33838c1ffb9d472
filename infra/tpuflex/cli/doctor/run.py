"""The steps of `tpuflex doctor`: examine everything side by side, show it, exit with its code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, groupby
from textwrap import wrap
from typing import TYPE_CHECKING

from tpuflex.doctor.check import (
    Check,
    Group,
    Standing,
    Subject,
    exit_code,
    in_groups,
    summary,
)
from tpuflex.doctor.cloud import (
    cloud_examinations,
    cloud_to_examine,
    credential_examination,
)
from tpuflex.doctor.machine_reading import machine_examinations
from tpuflex.doctor.side_by_side import examine_all
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.stack import Stack

#: Columns of a line of text, and the fewest that it gets; commands stay whole, to be copied.
_WIDTH, _NARROWEST = 100, 40
#: Seconds for this machine and the credential, and then for the cloud: below 30 together.
_FIRST, _REST_OF_TIME = 12.0, 16.0
_REST = Subject(Group.ACCOUNT, "project")
_STACK = Subject(Group.STACK, "stack")


def run_doctor(invocation: Invocation) -> int:
    """Examine the stack, or what there is without one, and show it; the exit code."""
    stack, stack_check = _open(invocation)
    checks = in_groups((stack_check, *_looked(invocation, stack)))
    invocation.output.document(
        {
            "stack": None if stack is None else stack.name,
            "cloud": None if stack is None else stack.settings.cloud,
            "checks": [check.to_json() for check in checks],
            "failed": sum(check.standing is Standing.FAILED for check in checks),
            "summary": summary(checks),
        }
    )
    show(invocation, checks)
    return exit_code(checks)


def _looked(invocation: Invocation, stack: Stack | None) -> list[Check]:
    """Every check but that of the stack file. Without a credential, nobody in the cloud answers."""
    examinations = machine_examinations(invocation, stack)
    cloud = None if stack is None else cloud_to_examine(invocation, stack)
    if cloud is None or isinstance(cloud, Check):
        first = [*chain(*examine_all(examinations, patience=_FIRST))]
        return first if cloud is None else [*first, cloud]
    examinations.append(credential_examination(cloud))
    *machine, credential = examine_all(examinations, patience=_FIRST)
    first = [*chain(*machine), *credential]
    if any(check.standing is Standing.FAILED for check in credential):
        return [*first, _REST.skipped("nobody answers without a credential")]
    return [*first, *chain(*examine_all(cloud_examinations(cloud), patience=_REST_OF_TIME))]


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
            text = for_stack(check.text, invocation.stack)
            lines = [part for line in text.splitlines() for part in _wrapped(line, len(indent))]
            start = f"  {check.standing:<{standing}}  {check.name:<{width}}  "
            output.result(start + f"\n{indent}".join(lines))
            if check.remedy:
                remedy = for_stack(check.remedy, invocation.stack)
                output.result(f"{indent}-> " + remedy.replace("\n", f"\n{indent}   "))
        output.result()
    output.result(summary(checks))


def _wrapped(line: str, indent: int) -> list[str]:
    """``line`` as lines that fit beside ``indent`` columns; a URL or a path stays whole."""
    return wrap(
        line, max(_WIDTH - indent, _NARROWEST), break_long_words=False, break_on_hyphens=False
    )


def _open(invocation: Invocation) -> tuple[Stack | None, Check]:
    """The stack, and whether there is one. One that was not asked for by name need not exist."""
    try:
        stack = invocation.open_stack()
    except NotFoundError as error:
        if invocation.chosen_stack:
            return None, _STACK.failed(NotFoundError, error.message, error.hint)
        found = f"{error.message} The rest is what can be said without one."
        return None, _STACK.skipped(found)
    except TpuflexError as error:
        return None, _STACK.failed(type(error), error.message, error.hint or "Edit the file.")
    return stack, _STACK.ok(f"{stack.name}, on {stack.cloud_text}")
