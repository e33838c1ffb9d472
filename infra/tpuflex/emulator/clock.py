"""Time as the embedded cloud sees it: always an argument, never read from the system."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()


class ManualClock:
    """A clock that stands still until it is advanced.

    Args:
        start: seconds since the epoch at which it stands (default 2026-11-21T12:00:00Z).
    """

    def __init__(self, start: float = 1_795_262_400.0) -> None:
        self._now = start

    def now(self) -> float:
        """Seconds since the Unix epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move forward; a negative step raises ``ValueError``."""
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        self._now += seconds


class OffsetClock:
    """Another clock plus an offset that can only grow: a server's clock that tests move.

    Args:
        base: the clock underneath.
        offset: seconds added to it from the start (what an earlier run had reached).
    """

    def __init__(self, base: Clock, offset: float = 0.0) -> None:
        self._base = base
        self.offset = offset

    def now(self) -> float:
        """Seconds since the Unix epoch, offset included."""
        return self._base.now() + self.offset

    def advance(self, seconds: float) -> None:
        """Move forward; a negative step raises ``ValueError``."""
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        self.offset += seconds


class MovableClock(Clock, Protocol):
    """A clock that can be moved forward."""

    def advance(self, seconds: float) -> None:
        """Move forward by ``seconds``."""
        ...


def rfc3339(epoch: float) -> str:
    """``epoch`` as RFC 3339 in UTC with nine decimals, the form Google's APIs answer."""
    whole, nanos = divmod(round(epoch * 1_000_000) * 1_000, 1_000_000_000)
    stamp = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{stamp}.{nanos:09d}Z"


def rfc3339_millis(epoch: float) -> str:
    """``epoch`` as RFC 3339 in UTC with three decimals, the form Cloud Storage answers."""
    return rfc3339(epoch)[:23] + "Z"


def parse_rfc3339(stamp: str) -> float:
    """Seconds since the epoch of an RFC 3339 stamp of any precision.

    Raises:
        ValueError: ``stamp`` is not RFC 3339.
    """
    head, dot, tail = stamp.partition(".")
    if dot:
        digits = len(tail) - len(tail.lstrip("0123456789"))
        stamp = f"{head}.{tail[:digits][:6].ljust(6, '0')}{tail[digits:]}"
    moment = datetime.fromisoformat(stamp)
    if moment.tzinfo is None:
        raise ValueError(f"{stamp} has no time zone")
    return moment.timestamp()


def parse_duration(duration: str) -> float:
    """Seconds of a protobuf JSON duration such as ``14400s`` or ``0.5s``.

    Raises:
        ValueError: ``duration`` is not a number of seconds followed by ``s``.
    """
    if not duration.endswith("s"):
        raise ValueError(f"{duration!r} is not a duration such as '3600s'")
    return float(duration[:-1])
