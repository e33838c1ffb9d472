"""The embedded cloud without a socket: calls go straight into its pipeline.

Time passes only in pauses, so hours of waiting take no real time. A kill point ends the code that
made the call with :class:`Killed`, as SIGKILL would: nothing after the call runs.
"""

from __future__ import annotations

import random
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import requests

from embedded_cloud.cloud import Cloud
from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.delivery import payload_of
from embedded_cloud.core.inbound_request import in_process
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.routing import Delivery, Reply
from embedded_cloud.core.store import Store
from embedded_cloud.faults.injector import FaultInjector
from embedded_cloud.faults.rule import CallFacts, Kill, Rule, Signal
from embedded_cloud.services.tpu.capacity import Capacity
from tpuflex.google.timing import Timing

T = TypeVar("T")

#: A command with more pauses than this counts as waiting forever.
MOST_PAUSES = 20_000


class Killed(BaseException):
    """The process that made the call was killed."""

    def __init__(self, roles: tuple[str, ...]) -> None:
        super().__init__(", ".join(roles))
        self.roles = roles


class _Clock(ManualClock):
    """A clock that is reset for each history."""

    def rewind(self) -> None:
        self._now = ManualClock().now()


class WaitsForEverError(Exception):
    """A command paused too often."""


class DirectCloud:
    """An embedded cloud in memory, its clock, and sessions on it.

    Attributes:
        cloud: the cloud; its state directory holds only the history and the token.
        clock: its clock, which is also the client's.
        cancel_at: when the engine cancels, if it does.
    """

    def __init__(self, state_dir: Path, capacity: Mapping[str, Any]) -> None:
        self.clock = _Clock()
        self.cloud = Cloud(state_dir, clock=self.clock, launch_hosts=False, store=Store(None))
        self.cloud.serve_at("http://127.0.0.1:1")
        self.faults = _DirectFaults(self)
        self.cloud.pipeline.inject(self.faults)
        # The control API reads it from here.
        self.cloud.__dict__["faults"] = self.faults
        self.cancel_at: float | None = None
        self._capacity = dict(capacity)
        self._pauses = 0
        self._random = random.Random(0)  # noqa: S311 - reproducible, not secret
        self.reset(0)

    def reset(self, seed: int) -> None:
        """Forget everything; ``seed`` seeds the client's jitter."""
        self.clock.rewind()
        self.cloud.store.clear()
        self.cloud.history.clear()
        self.faults.forget()
        self.capacity()
        self.cancel_at = None
        self._random.seed(seed)
        self.begin()

    def begin(self) -> None:
        """Begin a new command, with its own count of pauses."""
        self._pauses = 0

    def capacity(self, **rule: Any) -> None:
        """Set the capacity rules: those given at construction, overridden by ``rule``."""
        rules: JsonObject = {**self._capacity, **rule}
        self.cloud.capacity.set(Capacity.from_json(rules))

    def timing(self) -> Timing:
        """Clocks and pauses for the client."""
        return Timing(
            monotonic=self.clock.now,
            wall=self.clock.now,
            pause=self._pause,
            jitter=self._random.random,
        )

    def close(self) -> None:
        """Release the files."""
        self.cloud.close()

    def _pause(self, seconds: float) -> bool:
        self._pauses += 1
        if self._pauses > MOST_PAUSES:
            raise WaitsForEverError(f"{self._pauses} pauses in one command")
        end = self.clock.now() + max(0.0, seconds)
        if self.cancel_at is not None and end >= self.cancel_at:
            self.clock.advance(max(0.0, self.cancel_at - self.clock.now()))
            return True
        self.clock.advance(max(0.0, seconds))
        return False


class DirectSession:
    """The session with which the transport of :mod:`tpuflex.google` sends its requests."""

    def __init__(self, direct: DirectCloud) -> None:
        self._direct = direct

    def request(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str],
        data: bytes | None,
        headers: Mapping[str, str],
        timeout: tuple[float, float],
        allow_redirects: bool,
        token: str | None = None,
    ) -> requests.Response:
        """Send one request, answered or not; with the embedded cloud's own token by default."""
        del allow_redirects
        token = token or self._direct.cloud.access.token
        inbound = in_process(
            method,
            urlsplit(url).path,
            query=params,
            headers={**headers, "Authorization": f"Bearer {token}"},
            body=data or b"",
        )
        reply = at_once(self._direct.cloud.pipeline.exchange(inbound))
        if reply.delivery is Delivery.RESET:
            raise requests.ConnectionError("reset")
        if reply.delivery is Delivery.SILENT:
            self._direct.clock.advance(timeout[1])
            raise requests.ReadTimeout("no answer")
        if reply.delivery is Delivery.CUT:
            raise requests.exceptions.ChunkedEncodingError("cut")
        return _response(reply, url)

    def refresh_token(self) -> None:
        """The embedded cloud's token does not expire."""


class _DirectFaults(FaultInjector):
    """Faults whose delays advance the clock and whose kills end the caller."""

    def __init__(self, direct: DirectCloud) -> None:
        async def pause(seconds: float) -> None:
            direct.clock.advance(seconds)

        super().__init__(direct.clock, direct.cloud.history, pause)
        self._direct = direct

    async def kill(self, rule: Rule, effect: Kill, facts: CallFacts) -> None:
        """End the caller; TERM and INT make the engine cancel instead."""
        roles = list(effect.roles)
        self.strike(rule, facts, signal=effect.signal.value, processes=[{"role": r} for r in roles])
        if effect.signal is Signal.KILL:
            raise Killed(effect.roles)
        if effect.signal is Signal.STOP:
            self._direct.clock.advance(effect.resume_after_s or 0.0)
        else:
            self._direct.cancel_at = self._direct.clock.now()


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never has to wait."""
    try:
        work.send(None)
    except StopIteration as ended:
        result: T = ended.value
        return result
    work.close()
    raise RuntimeError("this call waits for something: only JSON calls can be handed in")


def _response(reply: Reply, url: str) -> requests.Response:
    response = requests.Response()
    response.status_code = reply.status
    response.url = url
    response._content = at_once(payload_of(reply))
    response._content_consumed = True  # type: ignore[attr-defined]  # not in its type information
    response.headers.update(reply.headers)
    return response
