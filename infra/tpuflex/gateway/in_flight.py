"""The limit of requests in flight at one upstream: a step up while first tokens come in time and
nothing waits there, a part down where they do not (additive increase, multiplicative decrease, as
in TCP's congestion control), inside a band. Before it falls for the first time it doubles."""

from __future__ import annotations

from dataclasses import dataclass

from tpuflex.gateway.first_token import LEAST, SHARE

#: Seconds after a change in which what comes says nothing: its requests were begun before it.
_SETTLE_S = 2.0
#: The part of itself by which the limit rises, at least 1, and what is left of it when it falls.
_STEP = 1 / 32
_DECREASE = 0.9


@dataclass(slots=True)
class InFlightLimit:
    """The limit, a whole number from ``least`` to ``most``.

    Attributes:
        least, most: the band.
        value: the limit now.
        reached: whether so many were in flight since it was judged.
    """

    least: int
    most: int
    value: int = 0
    reached: bool = False
    _starting: bool = True
    _settled: float = 0.0
    _late: int = 0
    _seen: int = 0
    _whole: int = 0

    def __post_init__(self) -> None:
        self.value = self.value or self.least

    def first_token(self, now: float, *, late: bool) -> None:
        """A request has its first token."""
        if now >= self._settled:
            self._seen += 1
            self._late += late

    def whole_answer(self, now: float) -> None:
        """A request has been answered that is not streamed: whether it was in time is not known,
        but without it the limit would never rise for clients that do not stream."""
        if now >= self._settled:
            self._whole += 1

    def second(self, now: float, waiting: int) -> None:
        """A second has passed.

        Args:
            now: monotonic clock, in seconds.
            waiting: requests that wait in the upstream's own queue.
        """
        if now < self._settled:
            return
        if waiting or self._late > SHARE * max(self._seen, LEAST):
            self._starting = False
            self._set(now, max(self.least, min(self.value - 1, round(self.value * _DECREASE))))
        # Beside a first token that is late they say nothing, or it would be forgotten each second.
        elif self._seen + (0 if self._late else self._whole) >= min(LEAST, self.value):
            step = self.value if self._starting else max(1, round(self.value * _STEP))
            self._set(now, min(self.most, self.value + step * self.reached))

    def _set(self, now: float, value: int) -> None:
        settle = _SETTLE_S if value != self.value else 0.0
        self.value, self._settled = value, now + settle
        self._seen = self._late = self._whole = 0
        self.reached = False
