"""Run the Pulumi engine on one stack: preview, up, refresh, destroy, with typed progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from tpuflex.engine.commands import EngineCommands, Listener, Program, Target
from tpuflex.engine.events import (
    Drift,
    EnginePlan,
    Finished,
    RunProgress,
    Started,
    Step,
    drift_of,
    progress_of,
)
from tpuflex.engine.failure import ProgramFailures, nothing_to_do
from tpuflex.errors import NotFoundError

if TYPE_CHECKING:
    from pulumi.automation.events import EngineEvent

#: Operations that the engine runs at once. The Automation API's own default is 16, and each
#: wait for capacity holds one: as many as the provider has threads.
PARALLEL = 1000


def _ignore(_progress: RunProgress) -> None:
    return None


class EngineRun:
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
        self._stack = target.stack
        self._commands = EngineCommands(target, program, failures, listener)

    @property
    def cancelled(self) -> bool:
        return self._commands.cancelled

    def preview(self, *, save: bool = False, refresh: bool = False) -> EnginePlan:
        """What ``up`` would do.

        Args:
            save: whether an ``up`` is to be held to it. What is secret is encrypted for that.
            refresh: whether all is compared with the cloud first; the state stays as it is.

        Raises:
            TpuflexError: the program or the engine failed.
        """
        planned = _StepCollector(self._commands.on_event)
        stack = self._commands.select()
        with NamedTemporaryFile(suffix=".json") as file, self._commands.operation("preview"):
            plan = file.name if save else None
            stack.preview(
                parallel=PARALLEL,
                color="never",
                plan=plan,
                refresh=refresh,
                on_event=planned,
            )
            return planned.plan(_of_steps_alone(file.read()), refreshed=refresh)

    def preview_destroy(self, *, keep_protected: bool = False, refresh: bool = False) -> EnginePlan:
        """What ``destroy`` would delete.

        Args:
            keep_protected: leave out protected resources and what they need.
            refresh: as :meth:`preview`.

        Raises:
            TpuflexError: the engine failed.
        """
        planned = _StepCollector(self._commands.on_event)
        stack = self._commands.select()
        with self._commands.operation("destroy"):
            try:
                stack.preview_destroy(
                    parallel=PARALLEL,
                    color="never",
                    run_program=False,
                    exclude_protected=keep_protected,
                    refresh=refresh,
                    on_event=planned,
                )
            except RuntimeError as error:
                # Where all is protected, nothing is left to be told of.
                if not keep_protected or not nothing_to_do(error):
                    raise
        return planned.plan(refreshed=refresh)

    def up(self, targets: tuple[str, ...] = (), *, plan: EnginePlan | None = None) -> None:
        """Bring the stack to what the program says.

        Args:
            targets: URNs, ``*`` and ``**`` allowed, of what alone is to be touched.
            plan: a saved one; the engine runs no step that it does not have, and brings the state
                in line with the cloud first if that is how it was made.

        Raises:
            PlanChangedError: there is a step that ``plan`` does not have.
            TpuflexError: the program, a provider or the engine failed, or Ctrl-C.
        """
        from pulumi.automation import CommandError

        done = _StepCollector(self._commands.on_event)
        stack = self._commands.select()
        with NamedTemporaryFile(suffix=".json") as file, self._commands.operation("up"):
            file.write(plan.saved if plan else b"")
            file.flush()
            try:
                stack.up(
                    parallel=PARALLEL,
                    color="never",
                    suppress_outputs=True,
                    target=list(targets) or None,
                    plan=file.name if plan else None,
                    refresh=plan is not None and plan.refreshed,
                    on_event=done,
                )
            except CommandError:
                if not self._commands.did_less_than_planned(done.steps):
                    raise

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Bring the state in line with the cloud.

        Args:
            targets: URNs of what alone is to be looked at.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        stack = self._commands.select()
        with self._commands.operation("refresh"):
            stack.refresh(
                parallel=PARALLEL,
                color="never",
                run_program=False,
                target=list(targets) or None,
                on_event=self._commands.on_event,
            )

    def destroy(self, *, keep_protected: bool = False, targets: tuple[str, ...] = ()) -> None:
        """Delete every resource of the stack, or a part of them.

        Args:
            keep_protected: leave out protected resources and what they need; otherwise the
                engine refuses to delete anything.
            targets: URNs, ``*`` and ``**`` allowed, of what alone is deleted; empty: everything.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        stack = self._commands.select()
        with self._commands.operation("destroy"):
            stack.destroy(
                parallel=PARALLEL,
                color="never",
                run_program=False,
                exclude_protected=keep_protected,
                target=list(targets) or None,
                on_event=self._commands.on_event,
            )

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs after its last update; empty when there was none.

        Raises:
            NotFoundError: the backend does not know the stack.
        """
        self._commands.select(create=False)
        asked = ("stack", "output", "--stack", self._stack, "--json", "--show-secrets")
        with self._commands.operation("stack output"):
            return dict(json.loads(self._commands.run(*asked)))

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
        self._commands.select(create=False)
        with self._commands.operation("stack export"):
            exported = json.loads(self._commands.run("stack", "export", "--stack", self._stack))
        return dict(exported.get("deployment") or {})

    def replace(self, deployment: Mapping[str, Any]) -> None:
        """Make ``deployment`` the stack's state.

        Raises:
            EngineError: the engine finds it invalid, or the stack is locked.
        """
        with NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as file:
            json.dump({"version": 3, "deployment": deployment}, file)
            file.flush()
            with self._commands.operation("stack import"):
                self._commands.run("stack", "import", "--stack", self._stack, "--file", file.name)

    def exists(self) -> bool:
        """Whether the backend knows the stack."""
        try:
            self._commands.select(create=False)
        except NotFoundError:
            return False
        return True

    def create(self) -> None:
        """Make the stack in the backend, unless it is there.

        Raises:
            EngineError: the backend refuses.
        """
        self._commands.select()

    def remove(self) -> None:
        """Remove the empty stack from the backend; its stack file stays."""
        with self._commands.operation("stack rm"):
            self._commands.run("stack", "rm", self._stack, "--yes", "--preserve-config")


def _of_steps_alone(saved: bytes) -> bytes:
    """The plan that the engine ``saved``, without what it says beside steps and inputs. Outputs
    follow from both, the cloud may change them meanwhile, and the engine fails over them without a
    word, after all is done (https://github.com/pulumi/pulumi/issues/16670). What a property depends
    on is not known in a preview that awaits nothing."""
    from pulumi.runtime.rpc import UNKNOWN

    if not saved:
        return b""
    plan = json.loads(saved)
    for each in plan["resourcePlans"].values():
        if (goal := each.get("goal")) is not None:
            goal.pop("propertyDependencies", None)
            said = goal["outputDiff"]
            new = said.get("adds") or {}
            kept = (each.get("state") or {}).keys() - new.keys()
            unknown = {"adds": dict.fromkeys(new, UNKNOWN), "updates": dict.fromkeys(kept, UNKNOWN)}
            goal["outputDiff"] = {**said, **unknown}
    return json.dumps(plan).encode()


class _StepCollector:
    """Listens to the engine and keeps what it would do.

    Attributes:
        steps: in the order in which the engine told them; a resource may have several.
    """

    def __init__(self, listener: Callable[[EngineEvent], None]) -> None:
        self.steps: list[Step] = []
        self._drift: list[Drift] = []
        self._listener = listener

    def plan(self, saved: bytes = b"", *, refreshed: bool) -> EnginePlan:
        """All that it would do, and what was found while that was planned."""
        drift = tuple(sorted(self._drift, key=lambda each: (each.type, each.name)))
        return replace(EnginePlan.of(self.steps), saved=saved, drift=drift, refreshed=refreshed)

    def __call__(self, event: EngineEvent) -> None:
        if (drift := drift_of(event)) is not None:
            self._drift.append(drift)
        progress = progress_of(event)
        if isinstance(progress, Started | Finished):
            self.steps.append(progress.step)
        self._listener(event)
