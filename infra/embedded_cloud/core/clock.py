"""The embedded cloud's time: always an argument, never read from the system."""

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

    It can also run faster than the clock underneath, so that waits and runs of hours pass in
    seconds.

    Args:
        base: the clock underneath.
        offset: seconds added to it at ``since`` (what an earlier run had reached).
        since: the time of ``base`` from which on ``speed`` adds to the offset.
        speed: seconds that pass here while one passes underneath.
    """

    def __init__(
        self,
        base: Clock,
        offset: float = 0.0,
        *,
        since: float | None = None,
        speed: float = 1.0,
    ) -> None:
        self._base = base
        # Read and replaced as one, so that no thread sees half of a change.
        self._pace = (base.now() if since is None else since, offset, speed)

    @property
    def offset(self) -> float:
        """Seconds that this clock is ahead of the clock underneath now."""
        since, offset, speed = self._pace
        return offset + (self._base.now() - since) * (speed - 1.0)

    @property
    def speed(self) -> float:
        """Seconds that pass here while one passes underneath."""
        return self._pace[2]

    def now(self) -> float:
        """Seconds since the Unix epoch, offset included."""
        since, offset, speed = self._pace
        base = self._base.now()
        return base + offset + (base - since) * (speed - 1.0)

    def advance(self, seconds: float) -> None:
        """Move forward; a negative step raises ``ValueError``."""
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} s")
        since, offset, speed = self._pace
        self._pace = (since, offset + seconds, speed)

    def run_at(self, speed: float) -> None:
        """Run at ``speed`` from now on; below 1 raises ``ValueError``."""
        if speed < 1.0:
            raise ValueError(f"a clock cannot run at {speed} times the time")
        base, offset = self._base.now(), self.offset
        self._pace = (base, offset, speed)

    def settings(self) -> dict[str, float]:
        """The arguments for another clock that continues this one."""
        since, offset, speed = self._pace
        return {"offset": offset, "since": since, "speed": speed}


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
    """``epoch`` as RFC 3339 in UTC with three decimals, the form of Cloud Storage."""
    return rfc3339(epoch)[:23] + "Z"


def rfc3339_offset(epoch: float) -> str:
    """``epoch`` as RFC 3339 with three decimals and a numeric offset, the form of Compute Engine.

    Google writes its Pacific offset; this is always UTC.
    """
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="milliseconds")


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
