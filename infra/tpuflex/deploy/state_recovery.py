"""Repairing a stack's state after a run was killed: lock, damaged files, pending operations."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.apis import await_apis
from tpuflex.deploy.ownership import taken_error
from tpuflex.deploy.stack_run import StackRun
from tpuflex.engine.backend import backend_url
from tpuflex.engine.events import name_of
from tpuflex.engine.state import known_ids, state_ids
from tpuflex.engine.state_files import file_backend, remove_truncated_files
from tpuflex.engine.state_lock import Lock, ThisMachine, break_locks, locks
from tpuflex.errors import AccessError, ApiError, EngineError, TpuflexError
from tpuflex.recovery.look import CloudLook
from tpuflex.recovery.owners import find_taken
from tpuflex.recovery.recover import recover as settle
from tpuflex.recovery.recover import recovery_lock
from tpuflex.recovery.report import Recovery, counted
from tpuflex.recovery.take_over import TakeOver
from tpuflex.roles.refusal import refusal_remedy
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class Cleared:
    """What kept the engine from the state, and was cleared.

    Attributes:
        locks: locks of dead processes, broken.
        files: truncated files, removed.
    """

    locks: tuple[Lock, ...] = ()
    files: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a recovery found and did.

    Attributes:
        stack: the stack.
        cleared: what kept the engine from the state.
        recovery: what was found and done, resource by resource.
        refused: why an `up` would refuse: another state has made what is there; None if none has.
    """

    stack: Stack
    cleared: Cleared = field(default_factory=Cleared)
    recovery: Recovery = field(default_factory=Recovery)
    refused: TpuflexError | None = None

    @property
    def clean(self) -> bool:
        """Whether nothing is pending, and nothing stands in the way of an `up`."""
        return self.recovery.clean and self.refused is None

    @property
    def problem(self) -> TpuflexError | None:
        """Why that is not all; None if it is.

        An EngineError: something could not be settled, or another state has made what is there. An
        AccessError or ApiError: the cloud was not asked, or did not say, whether it has what the
        program names. Another one: the program could not be compared with the cloud.
        """
        if self.recovery.unfinished is not None:
            return self.recovery.unfinished
        if self.refused is not None:
            return EngineError(self.refused.message, hint=self.refused.hint)
        if self.recovery.left:
            return _unsettled(self.recovery, self.stack)
        return _incomplete(self.recovery, self.stack) if self.recovery.not_looked_at else None

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex recover --json`` prints."""
        return {
            "stack": self.stack.name,
            "clean": self.clean,
            "locks": [lock.described for lock in self.cleared.locks],
            "files": [str(file) for file in self.cleared.files],
            "resources": self.recovery.to_json(),
            "not_looked_at": [
                f"{name_of(urn)}: {error.message}"
                for urn, error in self.recovery.not_looked_at.items()
            ],
        }


def recover(cloud: Connection, report: Report = silent, *, take_over: bool = False) -> Recovered:
    """Repair the state of the stack of ``cloud``.

    Args:
        cloud: the stack's cloud.
        report: receives progress.
        take_over: whether to adopt what another state of the stack has made.

    Raises:
        EngineError: the lock's owner is alive, or another recovery is running.
        TpuflexError: the cloud or the engine failed; nothing was lost.
    """
    stack = cloud.stack
    stack_run = StackRun(cloud, report)
    directory = file_backend(backend_url(stack_run.target)) or stack.project.home
    with recovery_lock(directory, stack.project.name, stack.name):
        return _recover_alone(cloud, stack_run, take_over)


def _recover_alone(cloud: Connection, stack_run: StackRun, take_over: bool) -> Recovered:
    stack, report = cloud.stack, stack_run.report
    cleared = clear_state(stack_run, stack)
    await_apis(cloud, report)
    if not stack_run.engine.exists():
        if cloud.inventory().empty:
            return Recovered(stack, cleared)
        stack_run.engine.create()  # its state was lost, but not its resources
    apis = cloud.apis()
    adoption = (
        TakeOver(functools.partial(find_taken, apis), stack.names.owner) if take_over else None
    )
    own = state_ids(stack_run.engine.deployment())
    look = CloudLook(apis, own)
    try:
        recovery = settle(stack_run.engine, look, report, timing=cloud.timing, first=adoption)
    except EngineError as error:
        if not error.locked:
            raise
        raise EngineError(
            "The stack is locked, and its backend keeps no lock files on this machine.",
            hint=f"If nothing is running on it anywhere: pulumi cancel --stack {stack.name}",
        ) from error
    cloud.known_state_ids.remember(stack.name, state_ids(stack_run.engine.deployment()))
    refused = _refusal(cloud, stack_run) if recovery.foreign else None
    return Recovered(stack, cleared, recovery, refused)


def _refusal(cloud: Connection, stack_run: StackRun) -> TpuflexError | None:
    """As `up` refuses, if another state of the stack has made what the program would create."""
    known = known_ids(stack_run.engine.deployment())
    found = find_taken(cloud.apis(), stack_run.engine.preview().steps)
    others = [each for each in found if each.id not in known]
    ours = any(each.marker.owner == cloud.stack.names.owner for each in others)
    return taken_error(cloud, others) if ours else None


def clear_state(stack_run: StackRun, stack: Stack) -> Cleared:
    """Break the locks of dead processes and repair truncated files.

    Raises:
        EngineError: an owner is alive, or runs where this machine cannot tell.
    """
    directory = file_backend(backend_url(stack_run.target))
    if directory is None:
        return Cleared()
    project = stack.project.name
    held = locks(directory, project, stack.name)
    broken = break_locks(held, ThisMachine(), stack_run.report)
    return Cleared(broken, remove_truncated_files(directory, project, stack.name))


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
