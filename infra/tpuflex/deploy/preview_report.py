"""What a preview says to somebody who reviews a change: plan, money, outage, memory. Pure.

Money stands in up to three columns: what runs now, what the stack file said before the change, and
what it says now. The state and the cloud know the first, the base of the change the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal

from tpuflex.deploy.before_chips import NOTHING, Foreseen
from tpuflex.deploy.plan import number
from tpuflex.duration import format_duration, google_seconds
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.operate.slice import SliceStatus
from tpuflex.planning.cost import RunCost, run_cost, slice_cost
from tpuflex.queued_resource.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.deploy.plan import StackPlan
    from tpuflex.engine.events import EnginePlan, Step
    from tpuflex.settings.model import StackSettings

#: What happened to the stack file.
FileChange = Literal["added", "changed", "renamed", "deleted", "same"]


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
            "usd_per_hour": number(self.cost.per_hour),
            "usd_maximum": number(self.cost.maximum),
            "ends": None if self.ends is None else self.ends.isoformat(),
            "granted": self.granted,
        }


@dataclass(frozen=True, slots=True)
class Away:
    """What becomes of an endpoint that runs, and for how long it would be away.

    Attributes:
        deleted_first: whether it is deleted before capacity for the next one is granted.
        for_good: whether nothing takes its place.
        hands_over: whether it serves until the next one does, so that it is never away.
        ends: when its run would end by itself.
        boot: how long its own boot took, by its own report; None if that is not known.
        queue: how long it waited for capacity; None if that is not known.
        give_up_after: the longest wait for capacity of the next one; None if nothing bounds it.
    """

    deleted_first: bool
    for_good: bool
    hands_over: bool
    ends: datetime | None
    boot: timedelta | None
    queue: timedelta | None
    give_up_after: timedelta | None

    def to_json(self) -> dict[str, object]:
        """The outage in the document of ``tpuflex preview --json``."""
        return {
            "deleted_first": self.deleted_first,
            "for_good": self.for_good,
            "hands_over": self.hands_over,
            "boot_seconds": None if self.boot is None else self.boot.total_seconds(),
            "queue_seconds": None if self.queue is None else self.queue.total_seconds(),
            "give_up_after": (
                None if self.give_up_after is None else format_duration(self.give_up_after)
            ),
        }


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key of the stack file that the change touches.

    Attributes:
        key: its full name, such as ``tpuflex:slice.accelerator_type``.
        before: its value as text; empty where it was not there.
        after: its value as text; empty where it is not there any more.
    """

    key: str
    before: str
    after: str

    def to_json(self) -> dict[str, str]:
        """The key in the document of ``tpuflex preview --json``."""
        return {"key": self.key, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Base:
    """The stack before the change.

    Attributes:
        ref: the Git reference that it was read from, as it was typed.
        change: what the change does to the stack file.
        settings: the settings before; None where there were none, or none that are valid.
        other_name: the stack's name before or after it was renamed.
        keys: the keys that the change touches.
    """

    ref: str
    change: FileChange
    settings: StackSettings | None = None
    other_name: str = ""
    keys: Sequence[KeyChange] = ()


@dataclass(frozen=True, slots=True)
class PreviewReport:
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
        foreseen: what ``up`` would do, or refuse, before it requests chips.
    """

    stack: str
    project: str
    plan: StackPlan
    digest: str
    at: datetime
    after: Run | None
    now: Run | None = None
    unread: str = ""
    away: Away | None = None
    base: Base | None = None
    rehearsed: bool = False
    foreseen: Foreseen = NOTHING

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
            "foreseen": self.foreseen.to_json(),
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


def away(settings: StackSettings, plan: EnginePlan, status: SliceStatus | None) -> Away | None:
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
    return Away(
        deleted_first=step.deleted_first,
        for_good=step.operation == "delete",
        hands_over=step.operation == "replace" and not step.deleted_first and status.ready,
        ends=status.expires,
        boot=timedelta(seconds=round(boot)) if boot else None,
        queue=waited,
        give_up_after=settings.slice.give_up_after,
    )


def slice_step(plan: EnginePlan) -> Step | None:
    """What ``plan`` does with the slice; None if it does not touch one."""
    return next((step for step in plan.steps if step.type == QUEUED_RESOURCE), None)
