"""Waiting inside a call: in small steps, up to a deadline, and until the engine cancels."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tpuflex.errors import TpuflexError

FIRST_PAUSE_S = 0.05
LONGEST_PAUSE_S = 2.0


class WaitCancelledError(TpuflexError):
    """The engine cancelled while a call was waiting."""


class WaitTimeoutError(TpuflexError):
    """A call's time ran out while it was waiting."""


@dataclass(frozen=True, slots=True)
class Waiter:
    """How long one call may wait.

    Attributes:
        pause: waits that many seconds; returns whether the engine has cancelled meanwhile.
        now: a monotonic clock, in seconds.
        deadline: the clock's reading at which the call times out.
    """

    pause: Callable[[float], bool]
    now: Callable[[], float]
    deadline: float

    def pauses(self, what: str) -> Iterator[None]:
        """Pause, a little longer every time, before each step of the caller's loop.

        Args:
            what: what is waited for, for the message.

        Raises:
            WaitCancelledError: the engine cancelled.
            WaitTimeoutError: the deadline passed.
        """
        seconds = FIRST_PAUSE_S
        while True:
            if self.now() + seconds > self.deadline:
                raise WaitTimeoutError(f"timeout while waiting for {what}")
            # Half fixed, half random, so that several calls do not retry in step.
            if self.pause(seconds * (0.5 + random.random() / 2)):  # noqa: S311
                raise WaitCancelledError(f"cancelled while waiting for {what}")
            yield
            seconds = min(seconds * 1.6, LONGEST_PAUSE_S)
