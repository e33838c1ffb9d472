"""What is there of one of many stacks, and whether a teardown is for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tpuflex.deploy.down import protected
from tpuflex.deploy.selection import Selection, Traits, refusal
from tpuflex.deploy.teardown import Planned, StackTeardown
from tpuflex.engine.state import resources
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.operate.slice import slice_status
from tpuflex.planning.cost import cost_in

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.deploy.known_stacks import Connect, KnownStack
    from tpuflex.engine.state import Stored
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


@dataclass(frozen=True, slots=True)
class Examined:
    """One stack as it was found.

    Attributes:
        name: its name.
        invocation: the command, for this stack alone.
        stack: its stack file; None if that cannot be used.
        teardown: its teardown; None if it could not be looked at.
        planned: what that would do.
        status: its slice; None if it has none.
        refusal: why the teardown is not for it; empty if it is.
        error: why it cannot be torn down.
        at: when it was looked at, on its cloud's clock.
    """

    name: str
    invocation: Invocation
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


def examine(
    invocation: Invocation, known: KnownStack, selection: Selection, connect: Connect
) -> Examined:
    """Look at one stack; what goes wrong with it is in the result."""
    own = replace(invocation, chosen_stack=known.name)
    found = Examined(known.name, own, known.stack, error=known.error)
    if known.stack is None:
        return found
    try:
        cloud = connect(own, known.stack)
        teardown = StackTeardown(own, cloud)
        planned = teardown.look()
        status = _slice(cloud)
        at = cloud.now()
        found = replace(found, teardown=teardown, planned=planned, status=status, at=at)
        traits = Traits(_labels(planned.mine.deployment), found.created)
        found = replace(found, refusal=refusal(selection, traits, at))
    except TpuflexError as error:
        return replace(found, error=error)
    if planned.serving is not None and not found.refusal:
        return replace(found, error=protected(planned.serving))
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
