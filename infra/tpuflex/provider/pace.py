"""The pace of a wait: its deadlines, how often it asks, and how often it gives a sign of life.

Seconds throughout. The parts have deadlines of their own: a wait in the queue costs nothing and may
last for days; hosts that are never finished, or never deleted, are a fault.
"""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType

from tpuflex.duration import format_duration, parse_duration
from tpuflex.request.fields import ProviderOptions

#: Between polls: short at first, because the wait may end at once, then ever longer.
_SHORTEST = 0.5
_LONGEST = 30.0
_GROWTH = 0.1
#: Polls per second of all waits in a process together, at most, on average: many resources at once
#: would otherwise starve the rest of the process and exceed the API's limits.
_TOGETHER = 10.0
#: After this long without a line, a sign of life is written.
HEARTBEAT = 60.0


class Waits:
    """Counts the waits in this process: each uses ``with waits:`` around itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """The present number."""
        return self._count

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            self._count -= 1


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
