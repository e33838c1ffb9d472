"""The steps of `tpuflex recover`: lock, damaged files, pending operations, report."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from tpuflex.cli.recover.report import Cleared, report
from tpuflex.deploy.apis import await_apis
from tpuflex.deploy.ownership import taken_error
from tpuflex.deploy.stack_run import StackRun
from tpuflex.engine.backend import backend_url
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.engine.state_files import file_backend, mend_files
from tpuflex.engine.state_lock import ThisMachine, break_locks, locks
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.recovery.lock import sole_recovery
from tpuflex.recovery.look import CloudLook
from tpuflex.recovery.owners import taken
from tpuflex.recovery.recover import recover
from tpuflex.recovery.report import Recovery
from tpuflex.recovery.take_over import TakeOver

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack
    from tpuflex.terminal.output import Output


def run_recover(invocation: Invocation, cloud: Connection, *, take_over: bool = False) -> None:
    """Repair the state of the stack of ``cloud`` and report what was done.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        take_over: whether to adopt what another state of the stack has made.

    Raises:
        EngineError: the lock's owner is alive, another recovery is running, or something could
            not be settled; or another state has made what is there.
        AccessError: it was not allowed to look for something that the program names.
        TpuflexError: the cloud or the engine failed; nothing was lost.
    """
    stack = cloud.stack
    stack_run = StackRun(cloud, invocation.report)
    directory = file_backend(backend_url(stack_run.target)) or stack.project.home
    with sole_recovery(directory, stack.project.name, stack.name):
        _recover_alone(invocation, cloud, stack_run, take_over)


def _recover_alone(
    invocation: Invocation, cloud: Connection, stack_run: StackRun, take_over: bool
) -> None:
    output, stack = invocation.output, cloud.stack
    cleared = clear_state(stack_run, stack, output)
    await_apis(cloud, invocation.report)
    if not stack_run.engine.exists():
        if cloud.inventory().empty:
            report(output, stack, cleared, Recovery())
            return
        stack_run.engine.create()  # its state was lost, but not its resources
    apis = cloud.apis()
    adoption = TakeOver(functools.partial(taken, apis), stack.names.owner) if take_over else None
    own = state_ids(stack_run.engine.deployment())
    look = CloudLook(apis, own)
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
    report(output, stack, cleared, recovery, refused)


def _refusal(cloud: Connection, stack_run: StackRun) -> TpuflexError | None:
    """As `up` refuses, if another state of the stack has made what the program would create."""
    known = known_ids(stack_run.engine.deployment())
    found = taken(cloud.apis(), stack_run.engine.preview().steps)
    others = [each for each in found if each.id not in known]
    ours = any(each.marker.owner == cloud.stack.names.owner for each in others)
    return taken_error(cloud, others) if ours else None


def clear_state(stack_run: StackRun, stack: Stack, output: Output) -> Cleared:
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
