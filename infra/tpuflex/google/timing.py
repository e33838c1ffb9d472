"""Clocks, sleeps and randomness, passed in so that tests never wait and waits can be interrupted.

A test seam: on the embedded cloud, whose clock can run faster than the machine's,
``TPUFLEX_TIME_SPEED=60`` lets a process keep pace with it. Then a pause of a minute takes a
second, and deadlines pass as fast. ``TPUFLEX_TIME_ORIGIN=REAL:CLOUD`` says what the embedded
cloud's clock showed (epoch seconds) when the machine's showed REAL, so that dates agree too.
Without ``TPUFLEX_EMULATOR`` in the environment both mean nothing.
"""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tpuflex.errors import EmulatorError

#: Seconds that the retries of one call may take together, unless the caller says otherwise.
DEFAULT_BUDGET = 90.0
SPEED_VARIABLE = "TPUFLEX_TIME_SPEED"
ORIGIN_VARIABLE = "TPUFLEX_TIME_ORIGIN"
_EMBEDDED_VARIABLE = "TPUFLEX_EMULATOR"
#: Counts the time in which the machine is suspended, unlike Python's own monotonic clock: a
#: request in the queue grows older meanwhile. macOS calls it CLOCK_MONOTONIC.
_STEADY: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
#: An answer is given at least this many real seconds, however fast the clock runs: sockets and
#: threads do not run any faster.
_PATIENCE = 2.0


def boottime_seconds() -> float:
    """Seconds on a clock that is never set and that goes on while the machine is suspended."""
    return time.monotonic() if _STEADY is None else time.clock_gettime(_STEADY)


@dataclass(frozen=True, slots=True)
class Timing:
    """What code that waits needs from the outside.

    Attributes:
        monotonic: seconds on a clock that is never set, and that goes on while the machine sleeps;
            for deadlines.
        wall: seconds since the epoch; for HTTP dates and expiry times.
        pause: sleep that many seconds; True if a shutdown interrupted it.
        jitter: a random number in [0, 1).
        speed: seconds on these clocks in one second of the machine's time; 1 except in tests.
    """

    monotonic: Callable[[], float]
    wall: Callable[[], float]
    pause: Callable[[float], bool]
    jitter: Callable[[], float]
    speed: float = 1.0

    @classmethod
    def real(cls, stop: threading.Event) -> Timing:
        """The machine's clocks; pauses end at once when ``stop`` is set."""
        return cls(boottime_seconds, time.time, stop.wait, random.random)

    @classmethod
    def of_environment(cls, environ: Mapping[str, str], stop: threading.Event) -> Timing:
        """As :meth:`real`, at the embedded cloud's pace if ``environ`` says one.

        Raises:
            EmulatorError: a variable of the pace cannot be read.
        """
        if _EMBEDDED_VARIABLE not in environ or SPEED_VARIABLE not in environ:
            return cls.real(stop)
        speed = _number(SPEED_VARIABLE, environ[SPEED_VARIABLE])
        if speed < 1:
            raise EmulatorError(f"{SPEED_VARIABLE}={environ[SPEED_VARIABLE]} is below 1")
        machine, _, cloud = environ.get(ORIGIN_VARIABLE, "").partition(":")
        began = _number(ORIGIN_VARIABLE, machine) if machine else time.time()
        origin = _number(ORIGIN_VARIABLE, cloud) if cloud else began
        return cls(
            monotonic=lambda: boottime_seconds() * speed,
            wall=lambda: origin + (time.time() - began) * speed,
            pause=lambda seconds: stop.wait(seconds / speed),
            jitter=random.random,
            speed=speed,
        )

    def patience(self, seconds: float) -> float:
        """Seconds of the machine's time to give to a call that may take ``seconds``."""
        return seconds if self.speed == 1.0 else max(seconds / self.speed, _PATIENCE)


def _number(variable: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise EmulatorError(f"{variable}: {text!r} is not a number") from None


#: Seconds after which an enabled API answers everywhere. Google: "wait a few minutes"; seen were 55
#: to 120 s (skypilot-org/skypilot PR #1197, hashicorp/terraform-provider-google#11435).
SETTLED_AFTER = 300.0


@dataclass
class Settling:
    """The APIs of a project while they settle.

    Attributes:
        until: when they will have settled, on the monotonic clock of the caller. Until then
            SERVICE_DISABLED is worth a retry; afterwards it is final.
    """

    until: float = -math.inf

    def begin(self, now: float) -> None:
        """Some API was enabled a moment before ``now``."""
        self.until = now + SETTLED_AFTER
