"""What the handling of one engine call has at hand, and how it looks at the cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.gcp.queued_resources import RequestName, TpuClient
from tpuflex.gcp.timing import DEFAULT_BUDGET, Timing
from tpuflex.lifecycle import Lifecycle, lifecycle
from tpuflex.provider.observation import Observation
from tpuflex.provider.pace import Waits

#: Seconds that the retries of one question may take in a wait, which asks again by itself.
POLL_BUDGET = 15.0
#: Pause between two looks that must agree before something counts as gone, in seconds.
_SECOND_LOOK = 0.5
#: Of these, no node can be there that would tell more than the queued resource itself.
_BEFORE_NODE = frozenset({Lifecycle.WAITING, Lifecycle.PROVISIONING})


class Report(Protocol):
    """Tells people what is going on."""

    def __call__(self, text: str, *, passing: bool = False, warning: bool = False) -> None:
        """Show ``text`` at the resource; ``passing`` text may be replaced by the next one."""


@dataclass(frozen=True, slots=True)
class Call:
    """One engine call.

    Attributes:
        client: the TPU API.
        timing: clocks and pauses; a pause is cut short when the engine cancels.
        report: where progress goes.
        new_id: makes the idempotency id of one mutating API call.
        waits: the waits of this process, which share the pace.
    """

    client: TpuClient
    timing: Timing
    report: Report
    new_id: Callable[[], str] = lambda: str(uuid4())
    waits: Waits = field(default_factory=Waits)

    def look(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Observation:
        """The queued resource and its node (of several, the first) as they are now.

        Args:
            name: the queued resource.
            budget: seconds that the retries of each question may take.
        """
        found = self.client.get_queued_resource(name, budget=budget)
        at = self.timing.wall()
        if found is not None and lifecycle(found.state.state, None) in _BEFORE_NODE:
            return Observation(name, found, None, at=at)
        first = found.spec.first_node(name.id) if found is not None else name.id
        node = self.client.get_node(f"{name.parent}/nodes/{first}", budget=budget)
        return Observation(name, found, node, at=at)

    def look_twice(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Observation:
        """As :meth:`look`, but what is missing is looked for once more, a little later: one
        404 from a distributed system is not yet a fact."""
        seen = self.look(name, budget=budget)
        if seen.lifecycle is not Lifecycle.LOST:
            return seen
        self.pause(_SECOND_LOOK)
        return self.look(name, budget=budget)

    def pause(self, seconds: float) -> None:
        """Wait.

        Raises:
            InterruptedByUser: the engine cancelled.
        """
        if self.timing.pause(seconds):
            raise InterruptedByUser("stopped on request")


class UnreadyError(TpuflexError):
    """The request exists, or may exist, but is not active: it must stay in the state.

    Attributes:
        observation: the last that was seen of it.
    """

    def __init__(self, message: str, *, observation: Observation, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.observation = observation
