"""The breaker on the time to the first token, of one class of requests at one upstream.

It opens where more than 5 % of the first tokens of the last half minute came later than a limit,
which is where their 95th percentile passes it. Some time later so many requests as are needed to
judge, and no more, try the upstream again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum

#: Seconds for which a first token counts, and how many are needed to judge.
WINDOW_S = 30.0
LEAST = 20
#: The share of them that may be late.
SHARE = 0.05
#: Seconds from opening to the first probes, and the most that they double to as probes are late.
OPEN_S = 5.0
MOST_OPEN_S = 60.0
#: Limits that are learnt, as multiples of the 95th percentile without load.
_LEARNT_SLOW, _LEARNT_VERY_SLOW = 1.5, 2.0
#: Requests that try an upstream again.
PROBES = 3


class Pace(IntEnum):
    """How soon an upstream's first tokens come."""

    NORMAL = 0
    SLOW = 1
    VERY_SLOW = 2


@dataclass(frozen=True, slots=True)
class FirstTokenLimits:
    """Seconds, from when the upstream has the request, above which a first token is late.

    Attributes:
        slow: other upstreams are used, if there are any.
        very_slow: this one is not used.
        learn: whether an upstream that is slower without load has higher ones.
    """

    slow: float
    very_slow: float
    learn: bool = False

    def learnt(self, p95: float | None) -> FirstTokenLimits:
        """The limits for an upstream whose 95th percentile without load, in seconds, is ``p95``;
        None where that is not known."""
        if p95 is None or not self.learn:
            return self
        return FirstTokenLimits(
            max(self.slow, _LEARNT_SLOW * p95), max(self.very_slow, _LEARNT_VERY_SLOW * p95)
        )

    def pace(self, seconds: float) -> Pace:
        """What a first token after so many seconds says."""
        if seconds <= self.slow:
            return Pace.NORMAL
        return Pace.SLOW if seconds <= self.very_slow else Pace.VERY_SLOW


class FirstTokenBreaker:
    """Judges an upstream by its first tokens. All times are of one monotonic clock, in seconds.

    Args:
        limits: when a first token is late.
    """

    def __init__(self, limits: FirstTokenLimits) -> None:
        self.limits = limits
        self._samples: deque[tuple[float, Pace]] = deque()
        self._count = [0, 0, 0]
        self._pending: dict[int, float] = {}
        self._probes: set[int] = set()
        self._next = 0
        self._open = Pace.NORMAL
        self._until = 0.0
        #: When it opened last.
        self.since = 0.0
        self._open_s = OPEN_S
        #: How many probes may still begin; None unless the breaker is half open.
        self._left: int | None = None
        self._answered = 0
        self._worst = Pace.NORMAL

    @property
    def opened(self) -> Pace:
        """How late first tokens were when it opened; NORMAL while it is closed. Half open counts as
        open: nothing has shown yet that they come in time again."""
        return self._open

    @property
    def limit(self) -> float:
        """Seconds after which first tokens came, when it opened."""
        return self.limits.slow if self._open is Pace.SLOW else self.limits.very_slow

    def pace(self, now: float) -> Pace:
        """How a request would fare that begins now: NORMAL, if it may be one of the probes."""
        self._move_on(now)
        if self._left is not None:
            return Pace.NORMAL if self._left else self._open
        return self._open

    def begin(self, now: float) -> int:
        """A request is sent to the upstream. Returns the number to name it by later."""
        self._move_on(now)
        self._next += 1
        self._pending[self._next] = now
        if self._left:
            self._left -= 1
            self._probes.add(self._next)
        return self._next

    def first_token(self, number: int, now: float) -> float:
        """Its first token is there. Returns after how many seconds."""
        seconds = now - self._pending.pop(number)
        pace = self.limits.pace(seconds)
        if number in self._probes:
            self._probes.discard(number)
            self._answer(pace, now)
        elif self._left is None:
            self._samples.append((now, pace))
            self._count[pace] += 1
            self._move_on(now)
        return seconds

    def gone(self, number: int, now: float, *, left: bool = False) -> bool:
        """It has ended without a first token. That counts as a late one if it has waited so long,
        which is returned; else it says nothing: the client left, or the upstream failed at once.
        Nor does a probe whose client has ``left``: one that leaves each time would keep the breaker
        open for all others."""
        began = self._pending.get(number)
        if began is None:
            return False
        if now - began > self.limits.slow and not (left and number in self._probes):
            self.first_token(number, now)
            return True
        self.forget(number)
        return False

    def forget(self, number: int) -> None:
        """It says nothing, however it ends: when its first token comes cannot be seen."""
        if self._pending.pop(number, None) is not None and number in self._probes:
            self._probes.discard(number)
            if self._left is not None:
                self._left += 1

    def _move_on(self, now: float) -> None:
        while self._samples and self._samples[0][0] <= now - WINDOW_S:
            self._count[self._samples.popleft()[1]] -= 1
        if self._left is not None:
            return
        judged = self._judged(now)
        if self._open is Pace.NORMAL:
            if judged:
                self._trip(judged, now)
        elif now >= self._until:
            if judged is Pace.NORMAL:
                self._close()
            elif judged is None:
                self._left, self._answered, self._worst = PROBES, 0, Pace.NORMAL
            else:
                self._trip(judged, now)
        elif judged is Pace.VERY_SLOW:
            self._open = judged

    def _judged(self, now: float) -> Pace | None:
        """What the window says; None where it has too little. A request that still waits for a
        first token that is late already is as good as one that got it."""
        late = [0, 0]
        for began in self._pending.values():
            pace = self.limits.pace(now - began)
            if pace is Pace.NORMAL:
                break
            late[pace - 1] += 1
        slow = self._count[Pace.SLOW] + late[0]
        very_slow = self._count[Pace.VERY_SLOW] + late[1]
        total = self._count[Pace.NORMAL] + slow + very_slow
        if total < LEAST:
            return None
        if very_slow > SHARE * total:
            return Pace.VERY_SLOW
        return Pace.SLOW if slow + very_slow > SHARE * total else Pace.NORMAL

    def _answer(self, pace: Pace, now: float) -> None:
        """One probe has its answer."""
        self._answered += 1
        self._worst = max(self._worst, pace)
        if self._answered < PROBES:
            return
        self._left = None
        if self._worst is Pace.NORMAL:
            self._close()
        else:
            self._open_s = min(2 * self._open_s, MOST_OPEN_S)
            self._open, self._until = self._worst, now + self._open_s

    def _trip(self, pace: Pace, now: float) -> None:
        if self._open is Pace.NORMAL:
            self.since = now
        self._open, self._until = pace, now + self._open_s
        self._forget()

    def _close(self) -> None:
        self._open, self._open_s = Pace.NORMAL, OPEN_S
        self._forget()

    def _forget(self) -> None:
        self._samples.clear()
        self._count = [0, 0, 0]
