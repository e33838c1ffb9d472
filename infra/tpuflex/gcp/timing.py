"""Clocks, sleeps and randomness, passed in so that tests never wait and waits can be cut short."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """What code that waits needs from the outside.

    Attributes:
        monotonic: seconds on a clock that never jumps; for deadlines.
        wall: seconds since the epoch; for HTTP dates and expiry times.
        pause: sleep that many seconds; True if it was cut short because all waiting must stop.
        jitter: a random number in [0, 1).
    """

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    pause: Callable[[float], bool]
    jitter: Callable[[], float]

    @classmethod
    def real(cls, stop: threading.Event) -> Timing:
        """The machine's clocks; pauses end at once when ``stop`` is set."""
        return cls(time.monotonic, time.time, stop.wait, random.random)
