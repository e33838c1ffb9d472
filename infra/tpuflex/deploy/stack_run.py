"""One stack and the engine that works on it: plan, up, refresh, destroy."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING

from tpuflex.boot.document import NO_MANIFEST
from tpuflex.boot.planned import planned_weights
from tpuflex.codes import Code
from tpuflex.deploy.engine_work import EngineWork, Workplace
from tpuflex.deploy.plan import StackPlan, require_first_versions
from tpuflex.deploy.policy import judge
from tpuflex.deploy.preparation import BUCKET, EndpointPreparation
from tpuflex.deploy.secret_versions import check_existing_secrets
from tpuflex.engine.events import Note, RunProgress
from tpuflex.engine.failure import ProgramFailures
from tpuflex.errors import AccessError, ConflictError, NotFoundError
from tpuflex.google.existing_key import read_key
from tpuflex.inventory.kinds import SUBNETWORK
from tpuflex.naming import ENDPOINT_NAME, QUEUED_RESOURCE
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import run_cost
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.connection import Connection
from tpuflex.stack.progress import Report, silent, working
from tpuflex.weights.source import check_source
from tpuflex.weights.stack_weights import StackWeights

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuflex.boot.planned import PlannedWeights
    from tpuflex.components.endpoint_args import Preparation
    from tpuflex.engine.events import EnginePlan
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.stack import Stack


#: URN patterns of what every part of a stack depends on.
_BEFORE_ALL = (
    "**VllmEndpoint::*",
    "**pulumi:providers:gcp::*",
    "**pulumi:providers:tpuflex::*",
    "**tpuflex:tpu:StateId::*",
    "**ApiServices::*",
    "**gcp:projects/service:Service::*",
)
#: URN patterns of the state's id, with what it depends on: what is made beside Pulumi carries it.
STATE = _BEFORE_ALL
#: URN patterns of what a user can fill before the first `up`, with what it depends on. It costs
#: nothing while it is empty.
SECRETS = (*_BEFORE_ALL, "**ServingSecrets::*", "**gcp:secretmanager/secret:Secret::*")
WEIGHTS = (*_BEFORE_ALL, "**WeightsBucket::*", f"**{BUCKET}::*")
#: URN pattern of the slice, on which nothing else depends.
SLICE = (f"**{QUEUED_RESOURCE}::*",)


class StackRun(EngineWork):
    """One command's work on the stack of its stack file."""

    def __init__(
        self,
        cloud: Connection,
        report: Report = silent,
        *,
        accepted_weights: str | None = None,
        weights_awaited: bool = False,
    ) -> None:
        """
        Args:
            cloud: the stack's cloud.
            report: takes what there is to tell.
            accepted_weights: as :attr:`EndpointPreparation.accepted`.
            weights_awaited: as :attr:`EndpointPreparation.awaited`.
        """
        super().__init__(cloud, report)
        self._accepted_weights = accepted_weights
        self._weights_awaited = weights_awaited
        self._before: PlannedWeights | None = None
        self._stack = cloud.stack
        self._partial = False
        self._run_over = ""  # what is said where it is, and `up` would request nothing
        self._key_unread: AccessError | None = None

    def place(self) -> Workplace:
        """The project's own directory."""
        return Workplace(self._stack.engine_project, self._stack.name, self.cloud.environ)

    @cached_property
    def _loading(self) -> threading.Thread:
        """The thread that loads the program's classes, started on first access."""
        thread = threading.Thread(target=_load_program, daemon=True)
        thread.start()
        return thread

    def load(self) -> None:
        """Begin to load what the program needs, beside whatever comes before the engine."""
        _ = self._loading

    @property
    def key_unread(self) -> AccessError | None:
        """Why a plan for a reader was made without a look at the user's key, if it was."""
        return self._key_unread

    def plan(self, *, reader: bool = False, refresh: bool = False) -> StackPlan:
        """What ``up`` would do and cost.

        Args:
            reader: whether a key that the caller may not read is taken for usable, and a source of
                weights that is not on this machine for there.
            refresh: whether all is compared with the cloud first; the state stays as it is.

        Raises:
            SettingsError: the weights to push do not exist.
            NotFoundError: the user's own bucket for them does not.
            AccessError: the user's own key cannot be read.
            TpuflexError: the program or the engine failed.
        """
        self._key_unread = require_existing(self.cloud, reader=reader)
        # Loading the program's classes takes as long as starting the engine: do both at once.
        self.load()
        cost = run_cost(self._stack.settings)
        with working(self.report, "Planning"):
            preview = self.retry_while_settling(
                lambda: self.engine.preview(save=not reader, refresh=refresh)
            )
        require_home_can_move(preview)
        require_first_versions(self._stack, preview)
        self._before = _weights_before(preview)
        plan = StackPlan(
            self._stack,
            preview,
            cost,
            run_over=self._run_over,
            policy=judge(self.cloud, preview),
        )
        if not reader and any(step.type == BUCKET for step in plan.plan.changes):
            # A new bucket is filled from the source: report a misspelt one before consent.
            check_source(self._stack)
        return plan

    def up(self, plan: EnginePlan) -> None:
        """Bring the stack up as ``plan`` has it.

        Raises:
            PlanChangedError: it would take a step that ``plan`` does not have.
            TpuflexError: the program, a provider or the engine failed, or Ctrl-C.
        """
        with self.changing(len(plan.resources)):
            self.retry_while_settling(lambda: self.engine.up(plan=plan))

    def up_part(self, targets: tuple[str, ...]) -> None:
        """Create a part of the stack.

        Args:
            targets: :data:`SECRETS` or :data:`WEIGHTS`.

        Raises:
            TpuflexError: the program, a provider or the engine failed, or Ctrl-C.
        """
        with self._part(), self.changing(0):
            self.retry_while_settling(lambda: self.engine.up(targets=targets))

    def preview_without_weights(self) -> EnginePlan:
        """What the whole stack would create, found out without its weights.

        Raises:
            NotFoundError: the user's own bucket for them does not exist.
            TpuflexError: the program or the engine failed.
        """
        require_existing(self.cloud)
        with self._part():
            return self.retry_while_settling(self.engine.preview)

    @contextmanager
    def _part(self) -> Iterator[None]:
        """While only a part of the stack is worked on."""
        self._partial = True
        try:
            yield
        finally:
            self._partial = False

    def refresh(self, targets: tuple[str, ...] = ()) -> None:
        """Bring the state in line with the cloud.

        Args:
            targets: :data:`SLICE`; everything unless given.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        with self.changing(0):
            self.retry_while_settling(lambda: self.engine.refresh(targets=targets))

    def destroy(self, plan: EnginePlan, *, keep_protected: bool = False) -> None:
        """Delete every resource of the stack, except protected ones with ``keep_protected``.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        with self.changing(len(plan.resources)):
            self.engine.destroy(keep_protected=keep_protected)

    def destroy_slice(self) -> None:
        """Delete the slice alone, so that the next ``up`` asks for another one.

        Raises:
            TpuflexError: a provider or the engine failed, or Ctrl-C.
        """
        with self.changing(1):
            self.engine.destroy(targets=SLICE)

    @cached_property
    def preparation(self) -> EndpointPreparation:
        """What the program awaits before it requests chips."""
        return EndpointPreparation(
            StackWeights(self.cloud),
            self.report,
            lambda: self.engine.cancelled,
            accepted=self._accepted_weights,
            awaited=self._weights_awaited,
            before=lambda: self._before,
        )

    @cached_property
    def _guarded(self) -> GuardedPreparation:
        return GuardedPreparation(self.preparation, self.failures)

    def program(self) -> None:
        """The Pulumi program, run by the engine in this process.

        Raises:
            NotFoundError: the stack is a program of the user's own.
        """
        import pulumi

        refuse_own_program(self._stack)
        # Wait for the end: two threads that load a module of pulumi-gcp at once see half of it.
        self._loading.join()
        from tpuflex.program import deploy

        settings = self._stack.settings
        deploy(
            # Part of a stack has no chips, so there is nothing to prepare and nothing to serve.
            _without_weights(settings) if self._partial else settings,
            project=pulumi.get_project(),
            stack=pulumi.get_stack(),
            prepare=None if self._partial else self._guarded,
            state_seen=lambda id_: self.cloud.known_state_ids.remember(self._stack.name, [id_]),
            environ=self.cloud.environ,
            key_unread=self._key_unread is not None,
        )

    def listen(self, progress: RunProgress) -> None:
        """Take what the engine tells; a preview reads the slice, too, and what it found is told at
        once, not only in `up`."""
        if self._changing:
            self.report(progress)
        elif isinstance(progress, Note) and progress.name == ENDPOINT_NAME:
            if progress.severity == "error" or progress.passing:
                return
            if progress.code is Code.RUN_OVER:
                self._run_over = progress.text
            self.report(progress)


class GuardedPreparation:
    """A preparation whose errors get through the engine as they are."""

    def __init__(self, preparation: Preparation, failures: ProgramFailures) -> None:
        self.planned = failures.guard_async(preparation.planned)
        self.ready = failures.guard_async(preparation.ready)


def refuse_own_program(stack: Stack) -> None:
    """Refuse a stack that is opened by its state, and that another program deploys.

    Raises:
        NotFoundError: that is so.
    """
    if stack.own_program:
        raise NotFoundError(
            f"Stack {stack.name} is a program of your own: only `pulumi up` makes what is missing.",
            hint=f"Run: pulumi up --stack {stack.name}",
        )


def require_existing(cloud: Connection, *, reader: bool = False) -> AccessError | None:
    """Refuse a bucket, a secret or a key of the user's own that cannot be used: of one that is not
    there the engine says that, and not which setting names it, or what to do.

    Args:
        cloud: the stack's cloud.
        reader: whether a key that the caller may not read is taken for usable.

    Returns:
        Why such a key could not be read, if it could not.

    Raises:
        NotFoundError, ConflictError, AlreadyExistsError: one cannot be used.
        AccessError: the bucket cannot be read; or the key cannot, and the caller is no ``reader``.
        ApiError: the cloud refuses for another reason.
    """
    if cloud.stack.settings.model.weights.existing is not None:
        StackWeights(cloud).exists()
    with suppress(AccessError):  # a caller who only previews may not see its versions
        check_existing_secrets(cloud)
    if (key := cloud.stack.settings.encryption.kms_key) is None:
        return None
    try:
        read_key(cloud.apis().cloudkms, key)
    except AccessError as error:
        if not reader:
            raise
        return error
    return None


def for_new_host(cloud: Connection) -> Connection:
    """The same cloud, where another slice takes the place of the one that runs, or has run.

    Raises:
        ConflictError: that one's request still waits.
    """
    with suppress(NotFoundError):
        status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
        if status.lifecycle in (Lifecycle.WAITING, Lifecycle.PROVISIONING):
            raise ConflictError(
                f"{status.queued_resource} in {status.zone} is {status.state}: there is no host yet"
                " that a new one could replace.",
                hint=status.advice.sentence(),
            )
    return cloud.with_new_host()


def _weights_before(preview: EnginePlan) -> PlannedWeights | None:
    """The weights that the slice in the state was made for."""
    known = (step.before for step in preview.steps if step.type == QUEUED_RESOURCE)
    found = (planned_weights(inputs.get("metadata")) for inputs in known)
    return next((each for each in found if each is not None), None)


def _without_weights(settings: StackSettings) -> StackSettings:
    """``settings`` for a program whose slice is not touched."""
    weights = settings.model.weights
    pinned = weights.model_copy(update={"manifest_sha256": weights.manifest_sha256 or NO_MANIFEST})
    model = settings.model.model_copy(update={"weights": pinned})
    return settings.model_copy(update={"model": model})


def _load_program() -> None:
    # The program meets the same failure when it needs what was not loaded, and reports it.
    with suppress(Exception):
        from tpuflex.program import load

        load(by_class=True)


def require_home_can_move(plan: EnginePlan) -> None:
    """Refuse a plan in which the home of a stack changes places with another of its regions: the
    subnetworks have one name, and Google refuses the second one of a region when the slice that
    served, and its network, are deleted already.

    Raises:
        ConflictError: it does.
    """
    found = [step for step in plan.resources if step.type == SUBNETWORK.type]
    had = {_place(step.before): step for step in found if step.before}
    for step in found:
        other = had.get(_place(step.inputs))
        if step.operation in ("create", "replace") and other and other.urn != step.urn:
            home = next((each for each in found if each.operation == "replace"), other)
            old, new = (str(each.get("region", "")) for each in (home.before, home.inputs))
            raise ConflictError(
                f"The stack's home would move from {old} to {new} in one step with other regions:"
                f" in {step.inputs.get('region')} it would have two subnetworks of one name for a"
                " moment, which Google refuses. Nothing was changed.",
                hint=f"One `up` each, with the zones and tpuflex:network.subnetwork_cidrs of: {old}"
                f" alone, then {new} alone, then all regions.",
            )


def _place(properties: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(properties.get(key) for key in ("project", "region", "name"))
