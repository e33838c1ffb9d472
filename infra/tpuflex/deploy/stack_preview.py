"""What a reviewer has to know of a change to a stack: plan, money, outage, memory.

Money stands in up to three columns: what runs now, what the stack file said before the change, and
what it says now. The state and the cloud know the first, the base of the change the second.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.before_chips import NOTHING_BEFORE, BeforeChips, look_before_chips
from tpuflex.deploy.ownership import require_free_names
from tpuflex.deploy.plan import StackPlan, may_stay, slice_step
from tpuflex.deploy.policy import require_present_waivers
from tpuflex.deploy.stack_run import StackRun, for_new_host
from tpuflex.duration import format_duration, google_seconds
from tpuflex.errors import AccessError, ApiError, NotAsPlannedError, NotFoundError
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.planning.cost import RunCost, run_cost, slice_cost, usd
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import Report, silent
from tpuflex.weights.known_files import planned_by_files

if TYPE_CHECKING:
    from pathlib import Path

    from tpuflex.deploy.base_commit import Base
    from tpuflex.engine.events import EnginePlan
    from tpuflex.settings.model import StackSettings
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

#: What names a backend of the engine.
_BACKEND = ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN")


@dataclass(frozen=True, slots=True)
class Run:
    """A slice, with what it costs.

    Attributes:
        accelerator_type: Google's name of its chips.
        zones: where it is, or may be.
        duration: its longest run.
        cost: what it costs.
        ends: when its run ends; of one that is not there yet, if it were granted now.
        granted: whether it is there.
    """

    accelerator_type: str
    zones: tuple[str, ...]
    duration: timedelta
    cost: RunCost
    ends: datetime | None
    granted: bool = False

    def to_json(self) -> dict[str, object]:
        """The run in the document of ``tpuflex preview --json``."""
        return {
            "accelerator_type": self.accelerator_type,
            "zones": list(self.zones),
            "max_run_duration": format_duration(self.duration),
            "usd_per_hour": usd(self.cost.per_hour),
            "usd_maximum": usd(self.cost.maximum),
            "ends": None if self.ends is None else self.ends.isoformat(),
            "granted": self.granted,
        }


@dataclass(frozen=True, slots=True)
class Interruption:
    """What becomes of an endpoint that runs, and for how long it would be away.

    Attributes:
        deleted_first: whether it is deleted before capacity for the next one is granted.
        for_good: whether nothing takes its place.
        hands_over: whether it serves until the next one does, so that it is never away.
        ends: when its run would end by itself.
        boot: how long its own boot took, by its own report; None if that is not known.
        queue: how long it waited for capacity; None if that is not known.
        give_up_after: the longest wait for capacity of the next one; None if nothing bounds it.
        may_stay: whether it is replaced only if what is not known yet turns out to be another.
    """

    deleted_first: bool
    for_good: bool
    hands_over: bool
    ends: datetime | None
    boot: timedelta | None
    queue: timedelta | None
    give_up_after: timedelta | None
    may_stay: bool = False

    def to_json(self) -> dict[str, object]:
        """The outage in the document of ``tpuflex preview --json``."""
        return {
            "deleted_first": self.deleted_first,
            "for_good": self.for_good,
            "hands_over": self.hands_over,
            "may_stay": self.may_stay,
            "boot_seconds": None if self.boot is None else self.boot.total_seconds(),
            "queue_seconds": None if self.queue is None else self.queue.total_seconds(),
            "give_up_after": (
                None if self.give_up_after is None else format_duration(self.give_up_after)
            ),
        }


@dataclass(frozen=True, slots=True)
class Preview:
    """A plan with all that its reviewer has to know.

    Attributes:
        stack: the stack's name.
        project: the Pulumi project's name.
        plan: what ``up`` would do; of a deleted stack file, what ``down`` would.
        digest: what ``up --expect`` compares.
        at: when it was planned, on the cloud's clock.
        after: the run that the stack file asks for; None of a deleted one.
        now: the slice that exists; None if there is none, or none is known.
        unread: why the cloud could not be asked for it, or empty.
        away: what becomes of an endpoint that serves; None if it stays.
        base: the stack before the change, if that was asked for.
        rehearsed: whether the plan was made on the embedded cloud in place of Google's.
        before_chips: what ``up`` would do, or refuse, before it requests chips.
    """

    stack: str
    project: str
    plan: StackPlan
    digest: str
    at: datetime
    after: Run | None
    now: Run | None = None
    unread: str = ""
    away: Interruption | None = None
    base: Base | None = None
    rehearsed: bool = False
    before_chips: BeforeChips = NOTHING_BEFORE

    @property
    def deleted(self) -> bool:
        """Whether the stack file is deleted, and so nothing is planned but left behind."""
        return self.base is not None and self.base.change == "deleted"

    @property
    def before(self) -> Run | None:
        """The run that the stack file asked for before the change."""
        if self.base is None or self.base.settings is None:
            return None
        return replace(asked_for(self.base.settings, self.at), ends=None)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex preview --json`` prints."""
        base = self.base
        return {
            **self.plan.to_json(),
            "digest": self.digest,
            "foreseen": self.before_chips.to_json(),
            "file_change": None if base is None else base.change,
            "keys": [] if base is None else [key.to_json() for key in base.keys],
            "runs": {
                "now": None if self.now is None else self.now.to_json(),
                "before": None if self.before is None else self.before.to_json(),
                "after": None if self.after is None else self.after.to_json(),
            },
            "away": None if self.away is None else self.away.to_json(),
        }


def asked_for(settings: StackSettings, at: datetime) -> Run:
    """The run that ``settings`` ask for, with its end if it were granted at ``at``."""
    wanted = settings.slice
    return Run(
        wanted.accelerator_type,
        tuple(wanted.zones),
        wanted.max_run_duration,
        run_cost(settings),
        at + wanted.max_run_duration,
    )


def running(settings: StackSettings, status: SliceStatus, inputs: Mapping[str, object]) -> Run:
    """The slice of ``status``, which was asked for with ``inputs`` and may not be what
    ``settings`` say by now."""
    wanted = settings.slice
    chips = str(inputs.get("acceleratorType") or wanted.accelerator_type)
    seconds = google_seconds(inputs.get("maxRunDuration"))
    duration = wanted.max_run_duration if seconds is None else timedelta(seconds=seconds)
    region = status.zone.rpartition("-")[0]
    cost = slice_cost(settings, chips, region, duration)
    granted = status.lifecycle is Lifecycle.ACTIVE
    return Run(chips, (status.zone,), duration, cost, status.expires, granted)


def interruption_of(
    settings: StackSettings, plan: EnginePlan, status: SliceStatus | None
) -> Interruption | None:
    """What ``plan`` does to the endpoint of ``status``; None if it stays, or does not run."""
    step = slice_step(plan)
    if status is None or status.lifecycle is not Lifecycle.ACTIVE or step is None:
        return None
    if step.operation not in ("replace", "delete"):
        return None
    boot = status.host.seconds if status.host is not None else 0
    waited = None
    if status.created is not None and status.active_since is not None:
        waited = max(timedelta(0), status.active_since - status.created)
    return Interruption(
        deleted_first=step.deleted_first,
        for_good=step.operation == "delete",
        hands_over=step.operation == "replace" and not step.deleted_first and status.ready,
        ends=status.expires,
        boot=timedelta(seconds=round(boot)) if boot else None,
        queue=waited,
        give_up_after=settings.slice.give_up_after,
        may_stay=may_stay(step),
    )


def preview(
    cloud: Connection,
    report: Report = silent,
    *,
    base: Base | None = None,
    refresh: bool = False,
    new_host: bool = False,
) -> Preview:
    """What ``up`` would do to a stack, and what it would cost; nothing is changed.

    The plan may break rules of policy, which are in it.

    Args:
        cloud: the stack's cloud. Of a stack whose file is deleted, that of the file as it was.
        report: takes the progress.
        base: the stack before the change that is previewed.
        refresh: whether all is compared with the cloud first, as ``up`` with ``refresh`` does.
        new_host: as for ``up``.

    Raises:
        AlreadyExistsError: another state has made what is there.
        TpuflexError: there is no preview.
    """
    if base is not None and base.change == "deleted":
        return _left_behind(cloud, base, report, refresh=refresh)
    require_present_waivers(cloud.stack, cloud.now())
    cloud = planned_by_files(cloud, reading=True)
    if new_host:
        cloud = for_new_host(cloud)
    stack = cloud.stack
    with _plan_only(cloud, report) as stack_run:
        plan = stack_run.plan(reader=True, refresh=refresh)
        require_free_names(cloud, stack_run, plan.plan, report)
    before_chips = look_before_chips(
        stack_run.preparation,
        plan.plan,
        key_unread=stack_run.key_unread,
    )
    status, unread = _slice(cloud, plan)
    at = cloud.now()
    return Preview(
        stack=stack.name,
        project=stack.project.name,
        plan=plan,
        digest=plan.plan.digest,
        at=at,
        after=asked_for(stack.settings, at),
        now=_now(stack, plan, status),
        unread=unread,
        away=interruption_of(stack.settings, plan.plan, status),
        base=base,
        rehearsed=stack.rehearsed,
        before_chips=before_chips,
    )


def require_as_planned(found: Preview) -> None:
    """Refuse a preview in which something is not as planned, for a schedule.

    Raises:
        NotAsPlannedError: ``up`` would change something, or what was compared with the cloud is not
            as the state has it.
    """
    plan, parts = found.plan.plan, []
    if count := len(plan.drift):
        counted = "1 resource is" if count == 1 else f"{count} resources are"
        parts.append(f"{counted} not as the state has {'it' if count == 1 else 'them'}")
    if plan.changes:
        parts.append(f"`up` has {found.plan.changes if plan.resources else 'the state to change'}")
    if parts:
        refresh = " --refresh" if plan.refreshed else ""
        raise NotAsPlannedError(
            f"Not all is as planned: {', and '.join(parts)}.",
            hint=Advice("To bring it right, after a question: {up}{refresh}", refresh=refresh),
        )


def _left_behind(cloud: Connection, base: Base, report: Report, *, refresh: bool) -> Preview:
    """What a deleted stack file leaves behind: all that its state has."""
    stack = cloud.stack
    with _plan_only(cloud, report) as stack_run:
        engine_plan = stack_run.engine.preview_destroy(refresh=refresh)
    plan = StackPlan(stack, engine_plan, run_cost(stack.settings))
    status, unread = _slice(cloud, plan)
    return Preview(
        stack=stack.name,
        project=stack.project.name,
        plan=plan,
        digest=engine_plan.digest,
        at=cloud.now(),
        after=None,
        now=_now(stack, plan, status),
        unread=unread,
        base=base,
        rehearsed=stack.rehearsed,
    )


@contextmanager
def _plan_only(cloud: Connection, report: Report) -> Iterator[StackRun]:
    """The engine on the stack of ``cloud``, which the backend may not know and does not get to
    know: then the plan is made with an empty state that goes away with it, so that somebody who may
    only read the backend can plan a new stack.

    Raises:
        EngineError: the backend refuses.
    """
    stack = cloud.stack
    stack_run = StackRun(cloud, report)
    with _as_it_was(stack.project.stacks / f"Pulumi.{stack.name}.yaml"):
        if stack_run.engine.exists():
            yield stack_run
            return
        with tempfile.TemporaryDirectory(prefix="tpuflex-plan-") as directory:
            environ = {key: value for key, value in cloud.environ.items() if key not in _BACKEND}
            environ["PULUMI_BACKEND_URL"] = f"file://{directory}"
            if "PULUMI_CONFIG_PASSPHRASE_FILE" not in environ:
                # Nothing of a plan is kept; a stack file with a salt still wants its passphrase.
                environ.setdefault("PULUMI_CONFIG_PASSPHRASE", "")
            yield StackRun(replace(cloud, environ=environ), report)


@contextmanager
def _as_it_was(file: Path) -> Iterator[None]:
    """Leave a stack file as it is, or away: the engine writes the salt of a passphrase to one that
    has none."""
    text = file.read_bytes() if file.is_file() else None
    try:
        yield
    finally:
        if text is None:
            file.unlink(missing_ok=True)
        elif file.read_bytes() != text:
            file.write_bytes(text)


def _slice(cloud: Connection, plan: StackPlan) -> tuple[SliceStatus | None, str]:
    """The slice that exists, and why it cannot be determined whether there is one."""
    step = slice_step(plan.plan)
    zones = step.before.get("zones") if step is not None else None
    known = [str(zone) for zone in zones] if isinstance(zones, list) else []
    stack = cloud.stack
    try:
        status = slice_status(
            stack.settings,
            stack.names,
            cloud.tpu,
            now=cloud.now(),
            recorded=lambda: known,
        )
    except NotFoundError:
        return None, ""
    except (AccessError, ApiError) as error:
        return None, error.message
    return status, ""


def _now(stack: Stack, plan: StackPlan, status: SliceStatus | None) -> Run | None:
    step = slice_step(plan.plan)
    if status is None:
        return None
    return running(stack.settings, status, step.before if step is not None else {})
