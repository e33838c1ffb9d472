"""What `tpuflex recover` prints and ends with: what it did, and what it could not look at."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.engine.events import name_of
from tpuflex.engine.state_lock import Lock
from tpuflex.errors import AccessError, ApiError, EngineError, TpuflexError
from tpuflex.recovery.report import Recovery, Settlement, counted
from tpuflex.roles.refusal import refusal_remedy

if TYPE_CHECKING:
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output


@dataclass(frozen=True, slots=True)
class Cleared:
    """What kept the engine from the state, and was cleared.

    Attributes:
        locks: locks of dead processes, broken.
        files: truncated files, removed.
    """

    locks: tuple[Lock, ...] = ()
    files: tuple[Path, ...] = ()


def report(
    output: Output,
    stack: Stack,
    cleared: Cleared,
    recovery: Recovery,
    refused: TpuflexError | None = None,
) -> None:
    """Print what was found and done, and fail if that is not all.

    Args:
        output: where to.
        stack: the stack.
        cleared: what kept the engine from the state.
        recovery: what was found and done.
        refused: why an `up` would refuse: another state has made what is there.

    Raises:
        EngineError: something could not be settled, or ``refused``.
        AccessError, ApiError: the cloud was not asked, or did not say, whether it has what the
            program names.
        TpuflexError: the program could not be compared with the cloud.
    """
    for line in () if refused else recovery.foreign:
        output.progress(f"  warning  {line}")
    show(output, stack, cleared, recovery, in_the_way=refused is not None)
    if recovery.unfinished is not None:
        raise recovery.unfinished
    if refused is not None:
        raise EngineError(refused.message, hint=refused.hint)
    if recovery.left:
        raise _unsettled(recovery, stack)
    if recovery.not_looked_at:
        raise _incomplete(recovery, stack)


def show(
    output: Output,
    stack: Stack,
    cleared: Cleared,
    recovery: Recovery,
    *,
    in_the_way: bool = False,
) -> None:
    """Print what was found and what was done.

    Args:
        output: where to.
        stack: the stack.
        cleared: what kept the engine from the state.
        recovery: what was found and done.
        in_the_way: whether what another state has made stands in the way of an `up`.
    """
    output.document(
        {
            "stack": stack.name,
            "clean": recovery.clean and not in_the_way,
            "locks": [lock.described for lock in cleared.locks],
            "files": [str(file) for file in cleared.files],
            "resources": recovery.to_json(),
            "not_looked_at": [
                f"{name_of(urn)}: {error.message}" for urn, error in recovery.not_looked_at.items()
            ],
        }
    )
    for lock in cleared.locks:
        output.result(f"Broke the lock of {lock.described}: that process is gone.")
    for file in cleared.files:
        output.result(f"Removed a truncated file: {file}")
    for item in recovery.settled:
        kind = item.type.rpartition(":")[2]
        begun = f" ({item.operation} was pending)" if item.operation else ""
        output.result(f"  {item.settlement:8} {kind} {item.name}{begun}: {item.detail}")
    if in_the_way or not recovery.clean:
        return
    if not (recovery.settled or cleared.locks or cleared.files):
        output.result(f"Nothing to recover: nothing is pending in stack {stack.name}.")
        return
    adopted = sum(item.settlement is Settlement.ADOPTED for item in recovery.settled)
    output.result(
        f"The state of stack {stack.name} is complete: {adopted} adopted, nothing pending. "
        + Advice("Next: {up}, or {down}").for_stack(stack.name, os.environ)
    )


def _unsettled(recovery: Recovery, stack: Stack) -> EngineError:
    """The error for what could not be settled."""
    details = "\n".join(item.detail for item in recovery.left)
    mending = refusal_remedy(details, stack.settings.project)
    return EngineError(
        f"{counted(recovery.left, 'resource')} could not be settled: see above.",
        hint=Advice("{mending}\nthen run again: {recover}", mending=mending)
        if mending
        else "Look in the cloud yourself. To clear what does not exist: pulumi refresh "
        f"--clear-pending-creates --stack {stack.name}",
    )


def _incomplete(recovery: Recovery, stack: Stack) -> TpuflexError:
    """The error for what the program names and was not looked for: it may be in the cloud, and is
    not in the state."""
    errors = recovery.not_looked_at
    lines = (f"  {name_of(urn)}: {error.message}" for urn, error in errors.items())
    kept = "What is above is in the state. This may be in the cloud, too, and is not in the state:"
    text = "\n".join((kept, *lines))
    mending = refusal_remedy(text, stack.settings.project)
    hint = Advice("To look for it once more, run again: {recover}")
    if mending:
        hint = Advice("{mending}\nthen run again: {recover}", mending=mending)
    if any(isinstance(error, AccessError) for error in errors.values()):
        return AccessError(text, hint=hint)
    return ApiError(text, hint=hint)
