"""The steps of `tpuflex recover`: lock, damaged files, pending operations, report."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.output import for_stack
from tpuflex.cli.stack_run import StackRun
from tpuflex.cli.steps.first_up import refusal
from tpuflex.cli.steps.preflight import await_apis
from tpuflex.engine.backend import backend_url
from tpuflex.engine.recovery.lock import sole_recovery
from tpuflex.engine.recovery.look import CloudLook
from tpuflex.engine.recovery.owners import taken
from tpuflex.engine.recovery.recover import recover
from tpuflex.engine.recovery.report import Recovery, Settlement, counted
from tpuflex.engine.recovery.take_over import TakeOver
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.engine.state_files import file_backend, mend_files
from tpuflex.engine.state_lock import Lock, ThisMachine, break_locks, locks
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.gcp.ownership import NO_STATE_ID

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack


@dataclass(frozen=True, slots=True)
class Cleared:
    """What kept the engine from the state, and was cleared.

    Attributes:
        locks: locks of dead processes, broken.
        files: truncated files, removed.
    """

    locks: tuple[Lock, ...] = ()
    files: tuple[Path, ...] = ()


def run_recover(invocation: Invocation, cloud: Cloud, *, take_over: bool = False) -> None:
    """Repair the state of the stack of ``cloud`` and report what was done.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        take_over: whether to adopt what another state of the stack has made.

    Raises:
        EngineError: the lock's owner is alive, another recovery is running, or something could
            not be settled; or another state has made what is there.
        TpuflexError: the cloud or the engine failed; nothing was lost.
    """
    stack = cloud.stack
    stack_run = StackRun(invocation, cloud)
    directory = file_backend(backend_url(stack_run.target)) or stack.project.home
    with sole_recovery(directory, stack.project.name, stack.name):
        _recover_alone(invocation, cloud, stack_run, take_over)


def _recover_alone(
    invocation: Invocation, cloud: Cloud, stack_run: StackRun, take_over: bool
) -> None:
    output, stack = invocation.output, cloud.stack
    cleared = clear_state(stack_run, stack, output)
    await_apis(invocation, cloud)
    if not stack_run.engine.exists():
        if cloud.inventory().empty:
            show(output, stack, cleared, Recovery())
            return
        stack_run.engine.create()  # its state was lost, but not its resources
    apis = cloud.apis()
    adoption = TakeOver(functools.partial(taken, apis), stack.names.owner) if take_over else None
    own = state_ids(stack_run.engine.deployment())
    # Marks that cannot be changed later are missing from what an older version has made.
    look = CloudLook(apis, {*own, NO_STATE_ID} if take_over else own)
    try:
        recovery = recover(
            stack_run.engine, look, output.progress, timing=cloud.timing, first=adoption
        )
    except EngineError as error:
        if not error.locked:
            raise
        raise EngineError(
            "The stack is locked, and its backend keeps no lock files on this machine.",
            hint=f"If nothing is running on it anywhere: pulumi cancel --stack {stack.name}",
        ) from error
    cloud.seen_states.remember(stack.name, state_ids(stack_run.engine.deployment()))
    refused = _refusal(cloud, stack_run) if recovery.foreign else None
    for line in () if refused else recovery.foreign:
        output.progress(f"  warning  {line}")
    show(output, stack, cleared, recovery, in_the_way=refused is not None)
    if recovery.unfinished is not None:
        raise recovery.unfinished
    if refused is not None:
        raise EngineError(refused.message, hint=refused.hint)
    if recovery.left:
        raise EngineError(
            f"{counted(recovery.left, 'resource')} could not be settled: see above.",
            hint="Look in the cloud yourself. To clear what does not exist: pulumi refresh "
            f"--clear-pending-creates --stack {stack.name}",
        )


def _refusal(cloud: Cloud, stack_run: StackRun) -> TpuflexError | None:
    """As `up` refuses, if another state of the stack has made what the program would create."""
    known = known_ids(stack_run.engine.deployment())
    found = taken(cloud.apis(), stack_run.engine.preview().steps)
    others = [each for each in found if each.id not in known]
    ours = any(each.marker.owner == cloud.stack.names.owner for each in others)
    return refusal(cloud, others) if ours else None


def clear_state(stack_run: StackRun, stack: OpenStack, output: Output) -> Cleared:
    """Break the locks of dead processes and repair truncated files.

    Raises:
        EngineError: an owner is alive, or runs where this machine cannot tell.
    """
    directory = file_backend(backend_url(stack_run.target))
    if directory is None:
        return Cleared()
    project = stack.project.name
    held = locks(directory, project, stack.name)
    broken = break_locks(held, ThisMachine(), output.progress)
    return Cleared(broken, mend_files(directory, project, stack.name))


def show(
    output: Output,
    stack: OpenStack,
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
        + for_stack("Next: tpuflex up, or tpuflex down", stack.name)
    )
