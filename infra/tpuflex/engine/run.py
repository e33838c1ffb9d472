"""Run the Pulumi engine on one stack: preview, up, refresh, destroy, with typed progress."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from tpuflex.engine.events import Finished, Note, Progress, Started, Step, progress_of
from tpuflex.engine.failure import ProgramFailures, failure
from tpuflex.engine.find import Engine
from tpuflex.engine.plan import Plan, merge
from tpuflex.errors import EngineError, InterruptedByUser, NotFoundError

if TYPE_CHECKING:
    from pulumi.automation import Stack
    from pulumi.automation.events import EngineEvent

    from tpuflex.engine.process import EngineProcess

#: Operations that the engine runs at once. The Automation API's own default is 16, and each
#: wait for capacity holds one: as many as the provider has threads.
PARALLEL = 1000

Program = Callable[[], None]
Listener = Callable[[Progress], None]


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
    environ: Mapping[str, str]


def _ignore(_progress: Progress) -> None:
    return None


class StackRun:
    """Operations on one stack through the Automation API, with our program inline.

    Attributes:
        cancelled: whether the user pressed Ctrl-C during an operation.
    """

    def __init__(
        self,
        target: Target,
        program: Program,
        *,
        failures: ProgramFailures,
        listener: Listener = _ignore,
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

    @property
    def cancelled(self) -> bool:
        return self._process.cancelled.is_set()

    def preview(self) -> Plan:
        """What ``up`` would do.

        Raises:
            TpuflexError: the program or the engine failed.
        """
        steps: dict[str, Step] = {}
        stack = self._select()
        with self._operation("preview"):
            stack.preview(parallel=PARALLEL, color="never", on_event=self._planned(steps))
        return Plan(tuple(steps.values()))

    def preview_destroy(self, *, spare_protected: bool = False) -> Plan:
        """What ``destroy`` would delete.

        Args:
            spare_protected: leave protected resources, and what they need, out.

        Raises:
            TpuflexError: the engine failed.
        """
        steps: dict[str, Step] = {}
        stack = self._select()
        with self._operation("destroy"):
            try:
                stack.preview_destroy(
                    parallel=PARALLEL,
                    color="never",
                    run_program=False,
                    exclude_protected=spare_protected,
                    on_event=self._planned(steps),
                )
            except RuntimeError as error:
                # Where all is protected, the engine ends well without the usual summary.
                if not spare_protected or "summary event never found" not in str(error):
                    raise
        return Plan(tuple(steps.values()))

    def up(self, targets: tuple[str, ...] = ()) -> dict[str, Any]:
        """Bring the stack to what the program says, and return its outputs.

        Args:
            targets: URNs, ``*`` and ``**`` allowed, of what alone is to be touched.

        Raises:
            TpuflexError: the program, a provider or the engine failed, or Ctrl-C.
        """
        stack = self._select()
        with self._operation("up"):
            result = stack.up(
                parallel=PARALLEL,
                color="never",
                suppress_outputs=True,
                target=list(targets) or None,
                on_event=self._on_event,
            )
        return {key: output.value for key, output in result.outputs.items()}

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Adopt into the state what is really in the cloud.

        Args:
            targets: URNs of what alone is to be looked at.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        stack = self._select()
        with self._operation("refresh"):
            stack.refresh(
                parallel=PARALLEL,
                color="never",
                run_program=False,
                target=list(targets) or None,
                on_event=self._on_event,
            )

    def destroy(self, *, spare_protected: bool = False) -> None:
        """Delete every resource of the stack.

        Args:
            spare_protected: leave protected resources, and what they need, out; else the engine
                refuses to delete anything.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        stack = self._select()
        with self._operation("destroy"):
            stack.destroy(
                parallel=PARALLEL,
                color="never",
                run_program=False,
                exclude_protected=spare_protected,
                on_event=self._on_event,
            )

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs after its last update; empty when there was none.

        Raises:
            NotFoundError: the backend does not know the stack.
        """
        stack = self._select(create=False)
        with self._operation("stack output"):
            return {key: output.value for key, output in stack.outputs().items()}

    def resources(self) -> tuple[dict[str, Any], ...]:
        """The resources in the stack's state, as the engine stores them.

        Raises:
            NotFoundError: the backend does not know the stack.
        """
        return tuple(self.deployment().get("resources") or ())

    def deployment(self) -> dict[str, Any]:
        """The stack's state as the engine stores it, secrets encrypted.

        Raises:
            NotFoundError: the backend does not know the stack.
        """
        self._select(create=False)
        arguments = ["stack", "export", "--stack", self._target.stack]
        with self._operation("stack export"):
            exported = json.loads(self._process.run(arguments, str(self._target.root), {}).stdout)
        return dict(exported.get("deployment") or {})

    def replace(self, deployment: Mapping[str, Any]) -> None:
        """Make ``deployment`` the stack's state.

        Raises:
            EngineError: the engine finds it invalid, or the stack is locked.
        """
        with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump({"version": 3, "deployment": deployment}, file)
            file.flush()
            arguments = ["stack", "import", "--stack", self._target.stack, "--file", file.name]
            with self._operation("stack import"):
                self._process.run(arguments, str(self._target.root), {})

    def exists(self) -> bool:
        """Whether the backend knows the stack."""
        try:
            self._select(create=False)
        except NotFoundError:
            return False
        return True

    def create(self) -> None:
        """Make the stack in the backend, unless it is there.

        Raises:
            EngineError: the backend refuses.
        """
        self._select()

    def remove(self) -> None:
        """Remove the empty stack from the backend; its stack file stays."""
        arguments = ["stack", "rm", self._target.stack, "--yes", "--preserve-config"]
        with self._operation("stack rm"):
            self._process.run(arguments, str(self._target.root), {})

    def _select(self, *, create: bool = True) -> Stack:
        """The stack in the backend; made there if ``create``."""
        from pulumi.automation import LocalWorkspace, StackNotFoundError
        from pulumi.automation.errors import StackAlreadyExistsError

        from tpuflex.engine.terse_stack import StackInitMode, TerseStack

        if self._stack is not None:
            return self._stack
        target = self._target
        workspace = LocalWorkspace(
            work_dir=str(target.root), program=self._program, pulumi_command=self._process
        )
        mode = StackInitMode.CREATE_OR_SELECT if create else StackInitMode.SELECT
        with self._operation("stack select"):
            try:
                self._stack = TerseStack(target.stack, workspace, mode)
            except StackNotFoundError as error:
                raise NotFoundError(
                    f"The stack {target.stack} has not been brought up.",
                    hint=f"Run: tpuflex up --stack {target.stack}",
                ) from error
            except StackAlreadyExistsError:
                pass  # another run has made it between our look and our making it
        return self._stack if self._stack is not None else self._select(create=False)

    @contextmanager
    def _operation(self, name: str) -> Iterator[None]:
        """Run one engine command: Ctrl-C is handled, failures become errors of ours."""
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

    def _raise_reason(self, name: str, stderr: str, cause: Exception) -> None:
        if self.cancelled:
            raise InterruptedByUser(
                "Stopped on request; what was done so far is in the stack's state.",
                hint="Run `tpuflex up` to go on, or `tpuflex down` to remove it.",
            ) from cause
        if self._failures.errors:
            raise self._failures.errors[0] from cause
        if isinstance(cause, OSError):
            raise EngineError(f"{self._target.engine.path} cannot be run: {cause.strerror}.")
        raise failure(name, self._notes, stderr) from cause

    def _say(self, text: str) -> None:
        self._listener(Note("info", text))

    def _on_event(self, event: EngineEvent) -> None:
        progress = progress_of(event)
        if progress is None:
            return
        if isinstance(progress, Note):
            self._notes.append(progress)
        self._listener(progress)

    def _planned(self, steps: dict[str, Step]) -> Callable[[EngineEvent], None]:
        def collect(event: EngineEvent) -> None:
            progress = progress_of(event)
            if isinstance(progress, Started | Finished):
                merge(steps, progress.step)
            self._on_event(event)

        return collect
