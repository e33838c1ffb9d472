"""How `tpuflex recover` shows what it did, and what it could not look at."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.state_recovery import recover
from tpuflex.recovery.report import Settlement

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.state_recovery import Recovered
    from tpuflex.stack.connection import Connection
    from tpuflex.terminal.output import Output


def run_recover(invocation: Invocation, cloud: Connection, *, take_over: bool = False) -> None:
    """Repair the state of the stack of ``cloud``, and print what was done."""
    show_recovered(invocation.output, recover(cloud, invocation.report, take_over=take_over))


def show_recovered(output: Output, done: Recovered) -> None:
    """Print what was found and done, and fail if that is not all; raises
    :attr:`~tpuflex.deploy.state_recovery.Recovered.problem`."""
    for line in () if done.refused else done.recovery.foreign:
        output.progress(f"  warning  {line}")
    output.document(done.to_json())
    _show(output, done)
    if (problem := done.problem) is not None:
        raise problem


def _show(output: Output, done: Recovered) -> None:
    stack, cleared, recovery = done.stack, done.cleared, done.recovery
    for lock in cleared.locks:
        output.result(f"Broke the lock of {lock.described}: that process is gone.")
    for file in cleared.files:
        output.result(f"Removed a truncated file: {file}")
    for item in recovery.settled:
        kind = item.type.rpartition(":")[2]
        begun = f" ({item.operation} was pending)" if item.operation else ""
        output.result(f"  {item.settlement:8} {kind} {item.name}{begun}: {item.detail}")
    if not done.clean:
        return
    if not (recovery.settled or cleared.locks or cleared.files):
        output.result(f"Nothing to recover: nothing is pending in stack {stack.name}.")
        return
    adopted = sum(item.settlement is Settlement.ADOPTED for item in recovery.settled)
    output.result(
        f"The state of stack {stack.name} is complete: {adopted} adopted, nothing pending. "
        + Advice("Next: {up}, or {down}").for_stack(stack.name, os.environ)
    )
