"""How often a wait asks, and how often it says that it is still there. Seconds throughout."""

from __future__ import annotations

import threading
from types import TracebackType

#: Between polls: short at first, because it may be over at once, then ever longer.
_SHORTEST = 0.5
_LONGEST = 30.0
_GROWTH = 0.1
#: Polls a second of all waits of a process together, at most, on average: many that are asked for
#: at once would otherwise crowd out what else the process does, and the API's limits.
_TOGETHER = 10.0
#: Without a line for this long, one is written anyway.
HEARTBEAT = 60.0


class Waits:
    """How many wait in this process: each does ``with waits:`` around its wait."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        """Those that wait now."""
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
