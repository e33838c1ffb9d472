"""Whether a host serves now: one that said so hours ago may be gone, with its machine."""

from __future__ import annotations

from collections.abc import Callable

from tpuflex.errors import BootError
from tpuflex.host.report import HostReport
from tpuflex.host.serving import OLD_AFTER_S


class SaidAnew:
    """Whether a host has said within one wait that it serves. One that was READY when it was first
    looked at has to say so again, which its watch does every minute.

    Args:
        now: a monotonic clock in seconds.
        advice: what the error says to do.
    """

    def __init__(self, now: Callable[[], float], advice: str) -> None:
        self._now = now
        self._advice = advice
        self._began = 0.0
        self._first: float | None = None
        self._fresh = False

    def __call__(self, report: HostReport) -> bool:
        """Whether ``report``, the latest, shows it.

        Raises:
            BootError: it was READY, and has said nothing since.
        """
        if not report.serves:
            self._fresh = True  # so what comes next is new
            return False
        if report.serving is None or self._fresh:
            return True
        if self._first is None:
            self._first, self._began = report.serving.at, self._now()
        if report.serving.at != self._first:
            return True
        if self._now() - self._began >= OLD_AFTER_S:
            raise BootError(
                "The host was READY, and has said nothing since: its machine or its watch is gone",
                hint=self._advice,
            )
        return False
