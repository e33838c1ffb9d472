"""The steps of `tpuflex recover`: lock, files, pending operations, report."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.cli.stack_run import Deployment
from tpuflex.engine.backend import backend_url
from tpuflex.engine.failure import LOCKED
from tpuflex.engine.recovery.lock import sole_recovery
from tpuflex.engine.recovery.look import CloudLook
from tpuflex.engine.recovery.recover import recover
from tpuflex.engine.recovery.report import Outcome, Recovery, counted
from tpuflex.engine.state_files import file_backend, mend_files
from tpuflex.engine.state_lock import Lock, ThisMachine, break_locks, locks
from tpuflex.errors import EngineError

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.cli.output import Output
    from tpuflex.cli.stack import OpenStack


@dataclass(frozen=True, slots=True)
class Opened:
    """What stood in the way of the state.

    Attributes:
        locks: locks of dead owners; they are broken.
        files: files that were cut short; they are removed.
    """

    locks: tuple[Lock, ...] = ()
    files: tuple[Path, ...] = ()


def recover_stack(invocation: Invocation, cloud: Cloud) -> None:
    """Mend the state of the stack of ``cloud`` and say what was done.

    Raises:
        EngineError: the lock's owner lives, another recovery is under way, or something could
            not be settled.
        TpuflexError: the cloud or the engine failed; nothing was lost.
    """
    stack = cloud.stack
    deployment = Deployment(invocation, cloud)
    directory = file_backend(backend_url(deployment.target)) or stack.project.home
    with sole_recovery(directory, stack.project.name, stack.name):
        _recover_alone(invocation, cloud, deployment)


def _recover_alone(invocation: Invocation, cloud: Cloud, deployment: Deployment) -> None:
    output, stack = invocation.output, cloud.stack
    opened = open_state(deployment, stack, output)
    if not deployment.engine.exists():
        if cloud.inventory().empty:
            show(output, stack, opened, Recovery())
            return
        deployment.engine.create()  # its state was lost, but not what it had made
    look = CloudLook(cloud.apis())
    try:
        found = recover(deployment.engine, look, output.progress, timing=cloud.timing)
    except EngineError as error:
        if not error.message.startswith(LOCKED):
            raise
        raise EngineError(
            "The stack is locked, and its backend keeps its locks elsewhere than in files here.",
            hint=f"If no run is under way anywhere: pulumi cancel --stack {stack.name}",
        ) from error
    show(output, stack, opened, found)
    if found.unfinished is not None:
        raise found.unfinished
    if found.left:
        raise EngineError(
            f"{counted(found.left, 'resource')} could not be settled: see above.",
            hint="Look in the cloud yourself; what is not there: pulumi refresh "
            f"--clear-pending-creates --stack {stack.name}",
        )


def open_state(deployment: Deployment, stack: OpenStack, output: Output) -> Opened:
    """Break the lock of a dead owner and mend files that were cut short.

    Raises:
        EngineError: an owner lives, or nothing is known of it.
    """
    directory = file_backend(backend_url(deployment.target))
    if directory is None:
        return Opened()
    project = stack.project.name
    held = locks(directory, project, stack.name)
    broken = break_locks(held, ThisMachine(), output.progress)
    return Opened(broken, mend_files(directory, project, stack.name))


def show(output: Output, stack: OpenStack, opened: Opened, found: Recovery) -> None:
    """Print what was found and done."""
    output.document(
        {
            "stack": stack.name,
            "clean": found.clean,
            "locks": [lock.described for lock in opened.locks],
            "files": [str(file) for file in opened.files],
            "resources": found.to_json(),
        }
    )
    for lock in opened.locks:
        output.result(f"The lock of {lock.described} is broken: that process is gone.")
    for file in opened.files:
        output.result(f"Removed, because a kill had cut it short: {file}")
    for item in found.settled:
        kind = item.type.rpartition(":")[2]
        begun = f" ({item.operation} was pending)" if item.operation else ""
        output.result(f"  {item.outcome:8} {kind} {item.name}{begun}: {item.detail}")
    if not found.clean:
        return
    option = "" if stack.name == "dev" else f" --stack {stack.name}"
    if not (found.settled or opened.locks or opened.files):
        output.result(f"Nothing to recover: nothing is pending in stack {stack.name}.")
        return
    adopted = sum(item.outcome is Outcome.ADOPTED for item in found.settled)
    output.result(
        f"The state of stack {stack.name} is whole: {adopted} taken in, nothing pending. "
        f"Next: tpuflex up{option}, or tpuflex down{option}"
    )
