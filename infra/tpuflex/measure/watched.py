"""Endpoints that are asked again and again what they count, each by a thread of its own: one that
does not answer does not hold up the others."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain, repeat
from threading import Condition, Thread
from typing import TYPE_CHECKING

from tpuflex.errors import TpuflexError
from tpuflex.measure.server import open_server
from tpuflex.measure.usage import SOON_S, Cost, looks
from tpuflex.operate.endpoint_status import health
from tpuflex.operate.health import Health

if TYPE_CHECKING:
    from tpuflex.measure.metrics import EngineMetrics
    from tpuflex.measure.usage import Usage
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

#: Seconds for the threads to close their tunnels when the watch ends.
_CLOSE_WITHIN_S = 1.0


class WatchedEndpoint:
    """An endpoint that is looked at until it is closed. The second look follows soon after the
    first, since only two show a rate; the others come every so many seconds.

    Args:
        cloud: the stack's cloud.
        status: its slice, which has an address.
        seconds: from one look to the next.
        tunnel: whether a tunnel may be opened, which stays open.
    """

    def __init__(
        self, cloud: Connection, status: SliceStatus, seconds: float, *, tunnel: bool
    ) -> None:
        self._cloud, self._tunnel = cloud, tunnel
        self._slice = status
        self._seconds = seconds
        self._changed = Condition()
        self._usage: Usage | None = None
        self._error: TpuflexError | None = None
        self._health: Health | None = None
        self._closed = False
        self._thread = Thread(target=self._run, daemon=True, name=f"watch: {cloud.stack.name}")
        self._thread.start()

    @property
    def usage(self) -> Usage | None:
        """The last look; None before the first."""
        return self._usage

    @property
    def error(self) -> TpuflexError | None:
        """Why it is not looked at any more; None while it is."""
        return self._error

    @property
    def unmeasured(self) -> str:
        """Why what it counts is not known now; empty where it is."""
        if self._error is not None:
            return self._error.message
        return "it has not answered yet" if self._usage is None else self._usage.why

    @property
    def health(self) -> Health | None:
        """Whether it serves, where its counts do not show that. If it could not be asked for them,
        a completion has decided, as in :func:`tpuflex.operate.endpoint_status.status`. If its
        engine makes no step for its requests, it does not serve, whatever ``/health`` says."""
        usage = self._usage
        if self._health is not None:
            return self._health
        if self.unmeasured:
            return Health(None, why=self.unmeasured)
        if usage is None or not usage.stalled:
            return None
        why = f"{usage.open_requests} in flight, and the engine has made no step"
        return Health.no("", why, frozen=True)

    def looks_at(self, status: SliceStatus | None) -> bool:
        """Whether it still looks, and ``status`` is the slice that it looks at, and READY."""
        if self._health is not None or (self._usage is not None and self._usage.stale):
            return False
        if status is None or not status.ready:
            return False
        return (status.node, status.address) == (self._slice.node, self._slice.address)

    def wait(self, until: float) -> None:
        """Wait for the second look, or for the reason why there is none; until ``until`` on the
        monotonic clock."""
        with self._changed:
            self._changed.wait_for(self._is_settled, max(0.0, until - time.monotonic()))

    def _is_settled(self) -> bool:
        looked = self._usage is not None and (self._usage.interval or self._usage.why)
        return bool(looked) or self._health is not None

    def _run(self) -> None:
        name, pauses = self._cloud.stack.name, chain((SOON_S,), repeat(self._seconds))
        try:
            with open_server(self._cloud, tunnel=self._tunnel, status=self._slice) as found:
                server = replace(found, pause=lambda _seconds: self._pause(next(pauses)))
                for usage in looks(server, name, self._seconds, _no_cost):
                    with self._changed:
                        self._usage = usage
                        self._changed.notify_all()
        except _ClosedError:
            pass
        except TpuflexError as error:
            found_out = health(self._cloud, self._slice, tunnel=self._tunnel)
            with self._changed:
                self._error, self._health = error, found_out
                self._changed.notify_all()

    def _pause(self, seconds: float) -> None:
        with self._changed:
            if self._changed.wait_for(lambda: self._closed, seconds):
                raise _ClosedError

    def _close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class _ClosedError(Exception):
    """Ends the looks."""


def _no_cost(_metrics: EngineMetrics) -> Cost:
    return Cost(None, None, None, None)


def close(endpoints: Iterable[WatchedEndpoint]) -> None:
    """Look at ``endpoints`` no more. A thread that still waits for an answer ends with the process,
    and so does its tunnel, which reads from this process."""
    every = tuple(endpoints)
    for each in every:
        each._close()
    until = time.monotonic() + _CLOSE_WITHIN_S
    for each in every:
        each._thread.join(max(0.0, until - time.monotonic()))
