"""How a race is told, and how long it may sleep between two rounds of questions."""

from __future__ import annotations

import math

from tpuflex.provider.call import Call
from tpuflex.provider.contest import Field
from tpuflex.provider.elapsed import elapsed
from tpuflex.provider.pace import HEARTBEAT, pause_for


class Progress:
    """What was told of a race so far."""

    def __init__(self, call: Call, field: Field) -> None:
        self._call = call
        self._field = field
        self._said: list[str] = []
        self._said_at = field.began

    def tell(self) -> None:
        """A line whenever a state changes, and a sign of life every minute."""
        now = self._call.timing.monotonic()
        field, lines, age = self._field, self._field.lines(), elapsed(self._field.age)
        if lines != self._said:
            after = f" (after {age})" if self._said else ""
            for line in lines:
                if line not in self._said:
                    self._call.report(f"{line}{after}")
        elif now - self._said_at >= HEARTBEAT:
            left = field.left()
            # Nothing bounds it while nothing is waited for: a leftover is being cleared.
            rest = f", {elapsed(left)} left" if math.isfinite(left) else ""
            silence = max((watch.silence() for watch in field.live()), default=0.0)
            silent = f", no answer for {elapsed(silence)}" if silence >= HEARTBEAT else ""
            self._call.report(f"{field.sentence()} ({age} so far{rest}{silent})", passing=True)
        else:
            return
        self._said, self._said_at = lines, now

    def pause(self) -> float:
        """Seconds until the next round is worth it: to ask, to tell, or to act on a deadline."""
        now, field = self._call.timing.monotonic(), self._field
        pauses = [
            pause_for(field.age, self._call.timing.jitter(), self._call.waits.count),
            self._said_at + HEARTBEAT - now,
            *(removal.wait() for removal in field.removals()),
            *(e.share - now for e in field.entrants if e.share is not None and e.queued),
        ]
        if (left := field.left()) > 0:
            pauses.append(left)
        if not field.live() and not field.removals():
            pauses.append(0.0)  # the next zone is asked at once
        return min(pauses)
