"""Which of many stacks a teardown is for: by label and by age, of what is there of each.

Every condition that is given must hold. What cannot be known of a stack never lets it be chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tpuflex.deploy.teardown import Planned, StackTeardown, protected_error
from tpuflex.duration import format_age
from tpuflex.engine.state import resources
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import cost_in

if TYPE_CHECKING:
    from tpuflex.deploy.known_stacks import KnownStack
    from tpuflex.engine.state import Stored
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.progress import Report
    from tpuflex.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class Selection:
    """What a stack must be like.

    Attributes:
        labels: labels that one of its resources carries, all of them.
        older_than: how old its slice must be, at least.
    """

    labels: Mapping[str, str] = field(default_factory=dict)
    older_than: timedelta | None = None

    @property
    def everything(self) -> bool:
        """Whether every stack is meant."""
        return not self.labels and self.older_than is None


@dataclass(frozen=True, slots=True)
class Traits:
    """What is known of a stack.

    Attributes:
        labels: the labels of each of its resources.
        created: when its slice was made, or requested while it waits; None if there is none.
    """

    labels: tuple[Mapping[str, str], ...] = ()
    created: datetime | None = None


def refusal(selection: Selection, traits: Traits, now: datetime) -> str:
    """Why a stack with ``traits`` is not chosen; empty if it is."""
    wanted = selection.labels.items()
    if wanted and not any(wanted <= dict(labels).items() for labels in traits.labels):
        text = ", ".join(f"{key}={value}" for key, value in wanted)
        return f"nothing of it is labelled {text}"
    if selection.older_than is not None:
        if traits.created is None:
            return "its age is unknown: it has no slice"
        if now - traits.created < selection.older_than:
            return f"its slice is {format_age(now - traits.created)} old"
    return ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One stack as it was found.

    Attributes:
        name: its name.
        stack: its stack file; None if that cannot be used.
        teardown: its teardown; None if it could not be looked at.
        planned: what that would do.
        status: its slice; None if it has none.
        refusal: why the teardown is not for it; empty if it is.
        error: why it cannot be torn down.
        at: when it was looked at, on its cloud's clock.
    """

    name: str
    stack: Stack | None = None
    teardown: StackTeardown | None = None
    planned: Planned | None = None
    status: SliceStatus | None = None
    refusal: str = ""
    error: TpuflexError | None = None
    at: datetime | None = None

    @property
    def chosen(self) -> bool:
        """Whether it is to be torn down."""
        return self.error is None and not self.refusal

    @property
    def created(self) -> datetime | None:
        """When the hosts were made, which are what is billed; when they were requested, before
        that; None without a slice."""
        if self.status is None:
            return None
        return self.status.active_since if self.status.node_state else self.status.created

    @property
    def per_hour(self) -> Decimal | None:
        """US dollars an hour that its slice costs now; None if that is not known."""
        if self.stack is None:
            return None
        if self.status is None or not (self.status.node_state or self.status.others_since):
            return Decimal("0.00")
        return cost_in(self.stack.settings, self.status.zone).per_hour

    @property
    def spent(self) -> Decimal | None:
        """US dollars that its slice has cost; None if that is not known."""
        if self.stack is None or self.at is None:
            return None
        if self.status is None:
            return Decimal("0.00")
        return self.status.cost(cost_in(self.stack.settings, self.status.zone).per_hour, self.at)


def candidate(
    known: KnownStack,
    selection: Selection,
    connect: Callable[[Stack], Connection],
    report: Report,
) -> Candidate:
    """Look at one stack; what goes wrong with it is in the result."""
    found = Candidate(known.name, known.stack, error=known.error)
    if known.stack is None:
        return found
    try:
        cloud = connect(known.stack)
        teardown = StackTeardown(cloud, report)
        planned = teardown.look()
        status = _slice(cloud)
        at = cloud.now()
        found = replace(found, teardown=teardown, planned=planned, status=status, at=at)
        traits = Traits(_labels(planned.mine.deployment), found.created)
        found = replace(found, refusal=refusal(selection, traits, at))
    except TpuflexError as error:
        return replace(found, error=error)
    if planned.serving is not None and not found.refusal:
        return replace(found, error=protected_error(planned.serving))
    return found


def _slice(cloud: Connection) -> SliceStatus | None:
    settings, names = cloud.stack.settings, cloud.stack.names
    with suppress(NotFoundError):
        return slice_status(
            settings, names, cloud.tpu, now=cloud.now(), recorded=cloud.recorded_zones
        )
    return None


def _labels(deployment: Stored) -> tuple[dict[str, str], ...]:
    return tuple(filter(None, map(_labels_of, resources(deployment))))


def _labels_of(resource: dict[str, Any]) -> dict[str, str]:
    """The labels that a resource carries, as the state has read them last."""
    found: dict[str, str] = {}
    for part in ("inputs", "outputs"):
        values = resource.get(part)
        labels = values.get("labels") if isinstance(values, dict) else None
        if isinstance(labels, dict):
            found |= {str(key): str(value) for key, value in labels.items()}
    return found
