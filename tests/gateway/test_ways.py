"""The ways to slices, of which a tunnel may break or not open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

from tests.gateway.running_fleet import Clock, until
from tests.gateway.upstream_server import KEY, MODEL, UpstreamServer
from tpuflex.errors import AccessError
from tpuflex.gateway.connection import Connection, open_session
from tpuflex.gateway.discovery import FoundSlice, Look, StackDiscovery, Way
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.stack_upstreams import StackUpstreams
from tpuflex.gateway.upstream import Upstream
from tpuflex.gateway.upstream_watch import UpstreamWatch
from tpuflex.operate.slice import SliceStatus
from tpuflex.project import open_project
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import Report
from tpuflex.stack.stack import Stack, read_stack

STATUS = SliceStatus("a-g1", "z", "ACTIVE", Lifecycle.ACTIVE, "runs", node="nodes/a-g1")


class Tunnels(StackDiscovery):
    """One slice, to which these tunnels lead: URLs, or why there is none. Without any, no slice."""

    def __init__(self, stack: Stack, *urls: str | AccessError) -> None:
        self.stack = stack
        self.urls = list(urls)
        self.closed: list[str] = []

    def look(self) -> Look:
        found = FoundSlice(STATUS, ready=True, ends_in=None, draining=False)
        slices = {("nodes/a-g1", "10.0.0.2"): found} if self.urls else {}
        return Look(slices, frozenset(), whole=True)

    @contextmanager
    def way(self, status: SliceStatus, report: Report) -> Iterator[Way]:
        assert status is STATUS
        url = self.urls.pop(0) if len(self.urls) > 1 else self.urls[0]
        if isinstance(url, AccessError):
            raise url
        report(f"opening {url}")
        yield Way(url, "", tunnelled=True, key=lambda: KEY)
        self.closed.append(url)


@asynccontextmanager
async def followed(
    upstreams: StackUpstreams, clock: Clock
) -> AsyncIterator[Callable[[Callable[[], bool]], Awaitable[None]]]:
    """Follow them; yields what lets time pass until something is so."""

    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await upstreams.follow(tasks)

    async def passes(is_so: Callable[[], bool]) -> None:
        while not is_so():
            clock.pass_by(1)
            await asyncio.sleep(0.001)

    task = asyncio.create_task(run())
    try:
        yield passes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_tunnel_that_breaks_is_opened_again(project: Path) -> None:
    """As one is that does not open, which is said once; each is closed in the end."""
    stack = read_stack(open_project(project, {}), "dev")
    clock, lines, watches = Clock(), list[object](), list[UpstreamWatch]()

    def watch(
        _stack: Stack, name: str, _found: FoundSlice, way: Way, noticed: Callable[[], None]
    ) -> UpstreamWatch:
        connection = Connection(Upstream(name, way.url, MODEL, InFlightLimit(1, 8)), open_session())
        surroundings = (lines.append, lambda: clock.time, clock.pause)
        watches.append(UpstreamWatch(connection, way.key, *surroundings, noticed=noticed))
        return watches[-1]

    async with AsyncExitStack() as running:
        servers = [UpstreamServer(), UpstreamServer()]
        for server in servers:
            await running.enter_async_context(server.running())
        first, second = (each.url for each in servers)
        refused = AccessError("no role.", hint="Ask for it.")
        tunnels = Tunnels(stack, refused, refused, first, second)
        upstreams = StackUpstreams(
            "a",
            tunnels,
            watch=watch,
            serve=UpstreamWatch.run,
            changed=lambda _stack: None,
            surroundings=(lines.append, lambda: clock.time, clock.pause),
        )
        async with followed(upstreams, clock) as passes:
            await passes(lambda: bool(watches) and watches[0].upstream.open)
            assert [str(each) for each in lines] == [
                "a/a-g1: there is no way to it: no role. Ask for it.",
                f"opening {first}",
                f"a/a-g1 is open: {MODEL} has answered.",
            ]

            await servers[0].stop()
            await passes(lambda: len(watches) == 2 and watches[1].upstream.open)
            assert tunnels.closed == [first]
            assert "a/a-g1 gets another way." in lines

        await until(lambda: tunnels.closed == [first, second])
        assert watches[1].connection.session.closed


async def test_what_was_wrong_with_a_slice_goes_with_it(project: Path) -> None:
    """Of a stack that was taken down there is nothing wrong: it has no slice."""
    clock = Clock()
    tunnels = Tunnels(
        read_stack(open_project(project, {}), "dev"), AccessError("no role.", hint="Ask for it.")
    )
    upstreams = StackUpstreams(
        "a",
        tunnels,
        watch=never,
        serve=UpstreamWatch.run,
        changed=never,
        surroundings=(lambda _line: None, lambda: clock.time, clock.pause),
    )
    async with followed(upstreams, clock) as passes:
        await passes(lambda: "no role" in upstreams.problem)
        tunnels.urls.clear()
        await passes(lambda: upstreams.is_empty and not upstreams.problem)


def never(*_what: object) -> NoReturn:
    raise AssertionError
