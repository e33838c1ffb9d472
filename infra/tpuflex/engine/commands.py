"""A stack opened for one program: selected in its backend, commands run, failures explained."""

from __future__ import annotations

import json
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.engine.environment import is_own_provider_notice
from tpuflex.engine.events import Note, RunProgress, Step, progress_of
from tpuflex.engine.failure import ProgramFailures, failure, less_than_planned, unreadable
from tpuflex.engine.find import Engine
from tpuflex.engine.state_files import damage_error, has_state
from tpuflex.errors import EngineError, InterruptedByUser, NotFoundError
from tpuflex.project import PULUMI_FILE, stack_directory
from tpuflex.settings.read import read_document
from tpuflex.settings.stack_document import secrets_provider_of

if TYPE_CHECKING:
    from pulumi.automation import Stack
    from pulumi.automation.events import EngineEvent

    from tpuflex.engine.process import EngineProcess

Program = Callable[[], None]
Listener = Callable[[RunProgress], None]


@dataclass(frozen=True, slots=True)
class Target:
    """What the engine works on.

    Attributes:
        root: directory of ``Pulumi.yaml``.
        stack: stack name.
        engine: the engine to run.
        environ: the engine's whole environment.
    """

    root: Path
    stack: str
    engine: Engine
    environ: Mapping[str, str] = field(repr=False)


def ignore_broken_stream() -> None:
    """Keep the Automation API from warning, by its own line of source, of an event stream that
    broke off: the engine was killed, and :func:`failure` says so."""
    for words in ("Error in event stream", "Failed to parse engine event"):
        warnings.filterwarnings("ignore", words, UserWarning, r"pulumi\.automation\._stack")


class EngineCommands:
    """The engine on one stack, and what it has said.

    Attributes:
        cancelled: whether the user pressed Ctrl-C during an operation.
    """

    def __init__(
        self, target: Target, program: Program, failures: ProgramFailures, listener: Listener
    ) -> None:
        from tpuflex.engine.process import EngineProcess

        self._target = target
        self._program = failures.guard(program)
        self._failures = failures
        self._listener = listener
        self._notes: list[Note] = []
        self._process: EngineProcess = EngineProcess(
            target.engine.path, target.engine.version, target.environ
        )
        self._stack: Stack | None = None
        # The SDK's inline language server lacks `Cancel`, which the engine calls when it is
        # stopped: gRPC would log that with a traceback.
        logging.getLogger("grpc._server").setLevel(logging.CRITICAL)
        ignore_broken_stream()

    @property
    def cancelled(self) -> bool:
        return self._process.cancelled.is_set()

    def did_less_than_planned(self, steps: Iterable[Step]) -> bool:
        """Whether the last operation, which took ``steps``, failed only because not all of its plan
        was needed."""
        return not self.cancelled and less_than_planned(self._notes, steps)

    def select(self, *, create: bool = True) -> Stack:
        """The stack in the backend; made there if ``create``.

        Raises:
            NotFoundError: the backend does not know it, and it is not to be made.
        """
        from pulumi.automation import StackNotFoundError
        from pulumi.automation.errors import StackAlreadyExistsError

        from tpuflex.engine.automation import (
            QuietStack,
            QuietWorkspace,
            StackInitMode,
            guard_automation_servers,
            own_channels,
        )

        if self._stack is not None:
            return self._stack
        target = self._target
        guard_automation_servers()
        own_channels()
        workspace = QuietWorkspace(
            partial(has_state, target.environ),
            work_dir=str(target.root),
            program=self._program,
            pulumi_command=self._process,
            secrets_provider=_secrets_provider(target.root, target.stack) if create else None,
        )
        mode = StackInitMode.CREATE_OR_SELECT if create else StackInitMode.SELECT
        with self.operation("stack select"):
            try:
                self._stack = QuietStack(target.stack, workspace, mode)
            except StackNotFoundError as error:
                raise NotFoundError(
                    f"The stack {target.stack} has not been brought up.",
                    hint=f"Run: tpuflex up --stack {target.stack}",
                ) from error
            except StackAlreadyExistsError:
                pass  # another run has made it between our look and our making it
        return self._stack if self._stack is not None else self.select(create=False)

    @contextmanager
    def operation(self, name: str) -> Iterator[None]:
        """Run one engine command: Ctrl-C is handled, failures become errors of ours.

        Raises:
            TpuflexError: the program, a provider or the engine failed, or Ctrl-C.
        """
        from pulumi.automation import CommandError, InvalidVersionError

        self._notes.clear()
        self._failures.errors.clear()
        try:
            with self._process.interruptible(self._say):
                yield
        except CommandError as error:
            self._raise_reason(name, self._process.stderr, error)
        except (RuntimeError, InvalidVersionError, OSError, json.JSONDecodeError) as error:
            # The Automation API's own complaints, such as a preview that ended without a summary.
            self._raise_reason(name, str(error), error)

    def run(self, *arguments: str) -> str:
        """What the engine prints when it is run with ``arguments`` in the project."""
        return self._process.run([*arguments], str(self._target.root), {}).stdout

    def on_event(self, event: EngineEvent) -> None:
        """Tell the listener, and keep what may explain a failure."""
        progress = progress_of(event)
        if progress is None:
            return
        if isinstance(progress, Note):
            if is_own_provider_notice(progress.text):
                return
            self._notes.append(progress)
        self._listener(progress)

    def _raise_reason(self, name: str, stderr: str, cause: Exception) -> None:
        if self.cancelled:
            raise InterruptedByUser(
                "Stopped on request; what was done so far is in the stack's state.",
                hint=Advice("Run the same command again to go on, or `{down}` to remove it."),
            ) from cause
        if self._failures.errors:
            raise self._failures.errors[0] from cause
        if isinstance(cause, OSError):
            raise EngineError(f"{self._target.engine.path} cannot be run: {cause.strerror}.")
        if unreadable(stderr) and (broken := damage_error(self._target.environ)) is not None:
            raise broken from cause
        raise failure(name, self._notes, stderr) from cause

    def _say(self, text: str) -> None:
        self._listener(Note("info", text))


def _secrets_provider(root: Path, stack: str) -> str | None:
    """What the stack file of ``stack`` names, such as ``gcpkms://…``; None where it names nothing.

    The engine's own commands read it, except the one that makes the stack, which is told (``pulumi
    stack init --secrets-provider``) and otherwise writes a passphrase's salt in its place."""
    project = read_document(root / PULUMI_FILE).value
    folder = stack_directory(root, project if isinstance(project, dict) else {})
    try:
        document = read_document(folder / f"Pulumi.{stack}.yaml").value
    except (FileNotFoundError, NotADirectoryError):
        return None  # the engine writes one
    return secrets_provider_of(document) or None
