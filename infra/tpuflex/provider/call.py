"""What the handling of one engine call works with: how it looks at the cloud, and the pace of its
waits (deadlines, how often it asks, how often it gives a sign of life). Seconds throughout."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol
from uuid import uuid4

from tpuflex.advice import Advice
from tpuflex.codes import Code
from tpuflex.duration import format_duration, parse_duration
from tpuflex.errors import InterruptedByUser, TpuflexError
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import DEFAULT_BUDGET, Timing
from tpuflex.provider.waits import Waits
from tpuflex.queued_resource.fields import ProviderOptions
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle

#: Between polls: short at first, because the wait may end at once, then ever longer.
_SHORTEST = 0.5
_LONGEST = 30.0
_GROWTH = 0.1
#: Polls per second of all waits in a process together, at most, on average: many resources at once
#: would otherwise starve the rest of the process and exceed the API's limits.
_TOGETHER = 10.0
#: Between two questions for a host's report. Google allows ten a minute
#: (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes#limitations).
HOST_POLL = 10.0
#: The same on the embedded cloud, whose hosts boot in seconds.
EMBEDDED_HOST_POLL = 0.5
#: After this long without a line, a sign of life is written.
HEARTBEAT = 60.0


def pause_for(age: float, jitter: float, waits: int = 1) -> float:
    """The pause before the next poll of a wait that has lasted for ``age``.

    Args:
        age: how long it has lasted.
        jitter: a random number in [0, 1), which spreads polls by a fifth to either side.
        waits: how many wait in this process, this one included.
    """
    alone = min(_LONGEST, max(_SHORTEST, age * _GROWTH))
    return max(alone, waits / _TOGETHER) * (0.8 + 0.4 * jitter)


def elapsed(seconds: float) -> str:
    """``3s``, ``12m``, ``2h5m``: seconds only while they matter."""
    whole = max(0, round(seconds))
    if whole >= 600:
        whole -= whole % 60
    return format_duration(timedelta(seconds=whole))


@dataclass(frozen=True, slots=True)
class Deadlines:
    """The limits of one engine call, in seconds.

    Attributes:
        queue: how long it may wait in the queue.
        provisioning: from the grant until the hosts run.
        deletion: until something is gone.
        overall: for everything together, from `custom_timeouts`; no limit by default.
    """

    queue: float
    provisioning: float
    deletion: float
    overall: float = math.inf

    @classmethod
    def of(cls, args: ProviderOptions, timeout: float) -> Deadlines:
        """The deadlines of ``args``, within the engine's ``timeout`` (0: none)."""
        return cls(
            queue=parse_duration(args.queue_timeout).total_seconds(),
            provisioning=parse_duration(args.provisioning_timeout).total_seconds(),
            deletion=parse_duration(args.delete_timeout).total_seconds(),
            overall=timeout or math.inf,
        )


#: Seconds for the retries of one request within a wait, which polls again anyway.
POLL_BUDGET = 15.0
#: Pause between two looks that must agree before something counts as gone, in seconds.
SECOND_LOOK = 0.5


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
        host_poll: seconds between two questions for what a host reports.
        drains: whether hosts are given time to end what they have begun before they are deleted.
    """

    client: TpuClient
    timing: Timing
    report: Report
    new_id: Callable[[], str] = lambda: str(uuid4())
    waits: Waits = field(default_factory=Waits)
    host_poll: float = HOST_POLL
    drains: bool = True

    def look(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
        """The queued resource and all of its nodes as they are now.

        Args:
            name: the queued resource.
            budget: seconds that the retries of each question may take.
        """
        return self.client.snapshot(name, self.timing.wall, budget=budget)

    def look_twice(self, name: RequestName, *, budget: float = DEFAULT_BUDGET) -> Snapshot:
        """As :meth:`look`, but looks again a little later if anything is missing: a single 404
        from a distributed system proves nothing."""
        seen = self.look(name, budget=budget)
        if seen.lifecycle is not Lifecycle.LOST:
            return seen
        self.pause(SECOND_LOOK)
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

    def __init__(
        self, message: str, *, snapshot: Snapshot, hint: Advice | str = "", code: Code | None = None
    ) -> None:
        super().__init__(message, hint=hint, code=code)
        self.snapshot = snapshot

    def keep_serving(self, names: Iterable[RequestName]) -> None:
        """Have the state remember that ``names`` serve until it does, beside those it has."""
        every = dict.fromkeys((*names, *self.snapshot.takes_over_from))
        self.snapshot = replace(self.snapshot, takes_over_from=tuple(every))
