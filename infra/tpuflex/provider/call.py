"""What the handling of one engine call works with, and how it looks at the cloud."""

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

#: Seconds for the retries of one request within a wait, which polls again anyway.
POLL_BUDGET = 15.0
#: Pause between two looks that must agree before something counts as gone, in seconds.
_SECOND_LOOK = 0.5


class Report(Protocol):
    """Reports progress to the user."""

    def __call__(self, text: str, *, passing: bool = False, warning: bool = False) -> None:
        """Show ``text`` at the resource; the next line may replace ``passing`` text."""


@dataclass(frozen=True, slots=True)
class Call:
    """One engine call.

    Attributes:
        client: the TPU API.
        timing: clocks and pauses; a cancel by the engine cuts a pause short.
        report: where progress goes.
        new_id: makes the idempotency id of one mutating API call.
        waits: the waits in this process, which share a polling rate.
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
        """As :meth:`look`, but looks again a little later if anything is missing: a single 404
        from a distributed system proves nothing."""
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
        snapshot: the last look at it.
    """

    def __init__(self, message: str, *, snapshot: Snapshot, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.snapshot = snapshot
