"""What the handling of one engine call has at hand, and how it looks at the cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from uuid import uuid4

from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.slices import take_snapshot
from tpuflex.gcp.timing import DEFAULT_BUDGET, Timing
from tpuflex.provider.pace import Waits
from tpuflex.request.name import RequestName
from tpuflex.request.snapshot import Snapshot
from tpuflex.request.states import Lifecycle

#: Seconds that the retries of one question may take in a wait, which asks again by itself.
POLL_BUDGET = 15.0
#: Pause between two looks that must agree before something counts as gone, in seconds.
_SECOND_LOOK = 0.5


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

    def look(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
        """The queued resource and all of its nodes as they are now.

        Args:
            name: the queued resource.
            budget: seconds that the retries of each question may take.
        """
        return take_snapshot(self.client, name, self.timing.wall, budget=budget)

    def look_twice(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
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
        snapshot: the last that was seen of it.
    """

    def __init__(self, message: str, *, snapshot: Snapshot, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.snapshot = snapshot
