"""The limit of requests in flight at one upstream: a step up each second while first tokens come in
time and nothing waits there, a quarter down where they do not (additive increase, multiplicative
decrease, as TCP's congestion control), inside a band."""

from __future__ import annotations

from dataclasses import dataclass

#: The part of the band by which the limit rises in a second, at least 1.
_STEP = 1 / 32
_DECREASE = 0.75
#: Seconds in which the limit stays after it was lowered: what was begun before shows for so long.
_HOLD_S = 5.0


@dataclass(slots=True)
class InFlightLimit:
    """The limit, which is whole numbers from ``least`` to ``most``.

    Attributes:
        least, most: the band.
        value: the limit now.
        reached: whether so many were in flight since the last second.
    """

    least: int
    most: int
    value: int = 0
    reached: bool = False
    _held_until: float = 0.0

    def __post_init__(self) -> None:
        self.value = self.value or self.least

    def second(self, now: float, *, late: bool, waiting: int) -> None:
        """A second has passed.

        Args:
            now: monotonic clock, in seconds.
            late: whether first tokens come later than they should.
            waiting: requests that wait in the upstream's own queue.
        """
        if late or waiting:
            if now >= self._held_until:
                self.value = max(self.least, int(self.value * _DECREASE))
                self._held_until = now + _HOLD_S
        elif self.reached and now >= self._held_until:
            step = max(1, round((self.most - self.least) * _STEP))
            self.value = min(self.most, self.value + step)
        self.reached = False
