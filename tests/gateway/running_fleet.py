"""A fleet that runs, on a clock that a test moves."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from tpuflex.gateway.fleet import Fleet
from tpuflex.gateway.upstream import Upstream
from tpuflex.settings.gateway import GatewaySettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack


def no_stack(_stack: object) -> NoReturn:
    raise AssertionError


@dataclass
class Clock:
    """Time that moves when a test says so."""

    time: float = 0.0
    _waits: list[tuple[float, asyncio.Future[None]]] = field(default_factory=list)

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(not future.done() for _, future in self._waits)

    async def pause(self, seconds: float) -> None:
        wait = (self.time + seconds, asyncio.get_running_loop().create_future())
        self._waits.append(wait)
        try:
            await wait[1]
        finally:
            self._waits.remove(wait)

    async def move(self, seconds: float) -> None:
        """Let so much time pass, once somebody waits for it."""
        await until(lambda: self.waiting > 0)
        self.pass_by(seconds)

    def pass_by(self, seconds: float) -> None:
        """Let so much time pass."""
        self.time += seconds
        for end, future in tuple(self._waits):
            if end <= self.time and not future.done():
                future.set_result(None)


async def until(is_so: Callable[[], bool]) -> None:
    """Until what other tasks and threads do has come so far; the test's own limit ends it."""
    while not is_so():  # noqa: ASYNC110 - whatever it is, it has no event
        await asyncio.sleep(0.001)


async def until_limit(upstream: Upstream, value: int) -> None:
    await until(lambda: upstream.limit.value == value)


@dataclass
class Running:
    """A fleet that runs."""

    fleet: Fleet
    clock: Clock
    lines: list[str]

    async def until(
        self, is_so: Callable[[], bool], *, within: float = math.inf, waiting: int = 0
    ) -> None:
        """Let time pass until that is so, though no more than so many seconds, and none while fewer
        than ``waiting`` wait for it."""
        end = self.clock.time + within
        while not is_so():
            if self.clock.time < end and self.clock.waiting >= waiting:
                self.clock.pass_by(1)
            await asyncio.sleep(0.001)

    def one(self) -> Upstream:
        (upstream,) = self.fleet.upstreams()
        return upstream

    def named(self) -> dict[str, Upstream]:
        return {each.name: each for each in self.fleet.upstreams()}


@asynccontextmanager
async def running_fleet(
    files: Path,
    *,
    stacks: Mapping[str, Stack] | None = None,
    connect: Callable[[Stack], Connection] = no_stack,
    reopen: Callable[[Stack], Stack] = no_stack,
    **settings: Any,
) -> AsyncIterator[Running]:
    """A fleet by these settings, once it has asked what there is."""
    clock, lines = Clock(), list[str]()
    found = Fleet(
        GatewaySettings.model_validate(settings),
        stacks or {},
        connect,
        files=files,
        reopen=reopen,
        report=lambda line: lines.append(str(line)),
        now=lambda: clock.time,
        pause=clock.pause,
    )
    task = asyncio.create_task(found.run())
    try:
        await found.settled()
        yield Running(found, clock, lines)
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
