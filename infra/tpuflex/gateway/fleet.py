"""All upstreams of a gateway, by their names and by the models that clients ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import read_private
from tpuflex.gateway.connection import Connection, open_session
from tpuflex.gateway.discovery import (
    ANY_SERVER,
    Look,
    Place,
    ServingSlice,
    StackDiscovery,
    Way,
    has_priorities,
    in_flight_band,
)
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.threads import in_thread
from tpuflex.gateway.upstream import Upstream
from tpuflex.gateway.upstream_watch import UpstreamWatch
from tpuflex.settings.gateway import InFlightBand, UpstreamSettings
from tpuflex.stack.progress import Progress, Report, silent

if TYPE_CHECKING:
    from tpuflex.settings.gateway import GatewaySettings
    from tpuflex.stack.connection import Connection as StackConnection
    from tpuflex.stack.stack import Stack

#: Seconds from one look at a stack's slices to the next.
_LOOK_S = 5.0


@dataclass(slots=True, eq=False)
class _Slice:
    """A slice that is an upstream, or will be once there is a way to it.

    Attributes:
        found: it, as the cloud had it last.
        watch: what watches it; None before there is a way.
        way: the way.
        asked: set when it was asked for a completion, or there is no way.
        gone: whether it is there no more.
    """

    found: ServingSlice
    watch: UpstreamWatch | None = None
    way: Way | None = None
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False

    @property
    def is_cut_off(self) -> bool:
        """Whether its tunnel has broken."""
        tunnelled = self.way is not None and self.way.tunnelled
        return tunnelled and self.watch is not None and self.watch.is_refused


@dataclass(slots=True, eq=False)
class _StackUpstreams:
    """A stack and the slices of it that are there.

    Attributes:
        name: its name among the upstreams.
        settings: what they say of it.
        stack: the stack.
        discovery: finds its slices.
        slices: those that are there.
        looked: set when it was looked for them.
        problems: what is wrong with what, which was said.
    """

    name: str
    settings: UpstreamSettings
    stack: Stack
    discovery: StackDiscovery
    slices: dict[Place, _Slice] = field(default_factory=dict)
    looked: asyncio.Event = field(default_factory=asyncio.Event)
    problems: dict[str, str] = field(default_factory=dict)


class Fleet:
    """The upstreams. All times are of one monotonic clock, in seconds.

    Args:
        settings: which upstreams and models there are.
        stacks: the stacks among them, by name; without ``upstreams`` in the settings, the one.
        connect: connects to a stack's cloud, in a thread.
        files: the folder that names of files are relative to.
        report: receives a line when an upstream opens, closes, comes or goes.
        now: the clock.
        pause: waits so many seconds.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        stacks: Mapping[str, Stack],
        connect: Callable[[Stack], StackConnection],
        *,
        files: Path,
        report: Report = silent,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._upstreams = settings.upstreams or {
            name: UpstreamSettings(stack=name) for name in stacks
        }
        self._stacks, self._connect = stacks, connect
        self._files, self._report = files, report
        self._now, self._pause = now, pause
        self._routes = self._routes_of_settings()
        #: By name in the settings, those that are there now.
        self._watches: dict[str, tuple[UpstreamWatch, ...]] = dict.fromkeys(self._upstreams, ())
        self._by_upstream: dict[Upstream, UpstreamWatch] = {}
        #: The pools by model, until an upstream comes or goes.
        self._pools: dict[str, tuple[tuple[Upstream, ...], ...]] = {}
        self._settled = asyncio.Event()

    def pools(self, model: str) -> Iterable[Collection[Upstream]]:
        """The upstreams for a model as clients call it, in pools."""
        found = self._pools.get(model)
        if found is None:
            route = self._routes.get(model, ())
            found = self._pools[model] = tuple(
                tuple(each.upstream for name in pool for each in self._watches[name])
                for pool in route
            )
        return found

    def upstreams(self) -> Iterable[Upstream]:
        """All upstreams that are there."""
        return (each.upstream for some in self._watches.values() for each in some)

    def connection(self, upstream: Upstream) -> Connection:
        """How ``upstream`` is asked; also of one that is gone, as long as it has requests in
        flight."""
        return self._by_upstream[upstream].connection

    def models(self) -> Sequence[str]:
        """The models that clients may ask for."""
        return tuple(self._routes)

    def request_class(self, model: str) -> str | None:
        """The class of requests for a model, whichever client asks; None where it is the
        client's."""
        route = self._settings.models.get(model)
        return None if route is None else route.request_class

    def suspect(self, upstream: Upstream, why: str) -> None:
        """``upstream`` has failed a request: it gets none until it has completed one."""
        watch = self._by_upstream.get(upstream)
        if watch is not None:
            watch.suspect(why)

    async def settled(self) -> None:
        """Wait until every upstream that is there has been asked once."""
        await self._settled.wait()

    async def run(self) -> None:
        """Watch all of them until this is cancelled; then connections and tunnels are closed."""
        stacks: list[_StackUpstreams] = []
        async with asyncio.TaskGroup() as tasks:
            for name, settings in self._upstreams.items():
                if settings.stack is None:
                    tasks.create_task(self._serve(name, self._url_watch(name, settings)))
                else:
                    stack = self._stacks[settings.stack]
                    discovery = StackDiscovery(stack, self._connect)
                    stacks.append(_StackUpstreams(name, settings, stack, discovery))
                    tasks.create_task(self._follow(tasks, stacks[-1]))
            await asyncio.sleep(0)  # the tasks begin
            for watch in tuple(self._by_upstream.values()):
                await watch.asked.wait()
            for each in stacks:
                await each.looked.wait()
                for one in tuple(each.slices.values()):
                    await one.asked.wait()
            self._settled.set()

    async def _serve(self, name: str, watch: UpstreamWatch) -> None:
        """Have an upstream until it is gone, and all that it had in flight has ended."""
        self._by_upstream[watch.upstream] = watch
        self._set_watches(name, (*self._watches[name], watch))
        try:
            await watch.run()
        finally:
            del self._by_upstream[watch.upstream]
            self._set_watches(name, tuple(each for each in self._watches[name] if each != watch))

    def _set_watches(self, name: str, watches: tuple[UpstreamWatch, ...]) -> None:
        self._watches[name] = watches
        self._pools.clear()

    def _url_watch(self, name: str, settings: UpstreamSettings) -> UpstreamWatch:
        url, model, file = (settings.url or "").rstrip("/"), settings.model or "", settings.key_file
        upstream = self._upstream(name, url, model, settings.in_flight or ANY_SERVER)
        key = partial(read_private, self._files / file) if file is not None else _no_key
        connection = _connection(upstream, settings)
        connection.priority_scheduling = settings.priority_scheduling
        return self._watch(connection, key)

    async def _follow(self, tasks: asyncio.TaskGroup, stack: _StackUpstreams) -> None:
        """Look at a stack's slices again and again. While its cloud cannot be asked, its upstreams
        stay as they are."""
        while True:
            try:
                look = await in_thread(stack.discovery.look)
            except Exception as error:  # the gateway, and all other stacks, go on whatever it is
                self._say_problem(stack, stack.name, "its slices cannot be read", error)
            else:
                stack.problems.pop(stack.name, None)
                self._update(tasks, stack, look)
            stack.looked.set()
            await self._pause(_LOOK_S)

    def _update(self, tasks: asyncio.TaskGroup, stack: _StackUpstreams, look: Look) -> None:
        now = self._now()
        for place, one in tuple(stack.slices.items()):
            one.found = look.serving.get(place, one.found)
            if look.is_gone(place) or one.is_cut_off:
                one.gone = True
                del stack.slices[place]
                if one.watch is not None:
                    one.watch.gone()
            elif one.watch is not None and place in look.serving:
                _follow_run(one.watch, one.found, now)
        for place, found in look.serving.items():
            if place not in stack.slices and not found.draining:
                one = stack.slices[place] = _Slice(found)
                tasks.create_task(self._serve_slice(stack, place, one))

    async def _serve_slice(self, stack: _StackUpstreams, place: Place, one: _Slice) -> None:
        """Have a slice as an upstream, by a way that is kept open, until it is gone."""
        name = f"{stack.name}/{one.found.node}"
        loop = asyncio.get_running_loop()

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(self._report, progress)

        way = stack.discovery.way(one.found.status, report)
        with ExitStack() as asked:
            asked.callback(one.asked.set)
            try:
                one.way = await in_thread(way.__enter__)
            except Exception as error:  # it is tried again at the next look
                self._say_problem(stack, name, "there is no way to it", error)
                if stack.slices.get(place) is one:
                    del stack.slices[place]
                return
            stack.problems.pop(name, None)
            try:
                if not one.gone:
                    one.watch = self._slice_watch(stack, name, one.found, one.way, one.asked)
                    await self._serve(stack.name, one.watch)
            finally:
                await in_thread(partial(way.__exit__, None, None, None))

    def _slice_watch(
        self,
        stack: _StackUpstreams,
        name: str,
        found: ServingSlice,
        way: Way,
        asked: asyncio.Event,
    ) -> UpstreamWatch:
        settings = stack.stack.settings
        band = stack.settings.in_flight or in_flight_band(settings, found.status.host)
        upstream = self._upstream(name, way.url, settings.model.name, band)
        connection = _connection(upstream, stack.settings, way.fingerprint)
        connection.priority_scheduling = has_priorities(settings)
        watch = self._watch(connection, stack.discovery.key, guarded=True, asked=asked)
        _follow_run(watch, found, self._now())
        return watch

    def _watch(
        self,
        connection: Connection,
        key: Callable[[], str],
        *,
        guarded: bool = False,
        asked: asyncio.Event | None = None,
    ) -> UpstreamWatch:
        learns = any(each.first_token.learn for each in self._settings.all_classes.values())
        known = (self._report, self._now, self._pause)
        return UpstreamWatch(connection, key, *known, guarded=guarded, learns=learns, asked=asked)

    def _upstream(self, name: str, url: str, model: str, band: InFlightBand) -> Upstream:
        limit = InFlightLimit(band.least, band.most)
        return Upstream(name, url, model, limit, most_kv_use=self._settings.kv_use)

    def _say_problem(self, stack: _StackUpstreams, name: str, what: str, error: Exception) -> None:
        """Say what is wrong, once as long as it is the same."""
        why = error.message if isinstance(error, TpuflexError) else repr(error)
        if stack.problems.get(name) != why:
            stack.problems[name] = why
            self._report(
                f"{name}: {what}: {why.rstrip('.')}. It is tried again every {_LOOK_S:.0f} s."
            )

    def _routes_of_settings(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        """The names of upstreams by model, in pools; by default one pool for each name of a model
        that upstreams have."""
        if self._settings.models:
            return {model: route.pools for model, route in self._settings.models.items()}
        names: dict[str, tuple[str, ...]] = {}
        for name, settings in self._upstreams.items():
            if settings.stack is not None:
                model = self._stacks[settings.stack].settings.model.name
            else:
                model = settings.model or ""
            names[model] = (*names.get(model, ()), name)
        return {model: (pool,) for model, pool in names.items()}


def _connection(
    upstream: Upstream, settings: UpstreamSettings, fingerprint: str = ""
) -> Connection:
    return Connection(
        upstream,
        open_session(fingerprint),
        prompt_usd_micros=_micros(settings.usd_per_million_prompt),
        generated_usd_micros=_micros(settings.usd_per_million_generated),
    )


def _follow_run(watch: UpstreamWatch, found: ServingSlice, now: float) -> None:
    """Have an upstream end, and drain, when its run does."""
    watch.upstream.ends = None if found.ends_in is None else now + found.ends_in
    watch.drain(found.draining)


def _micros(usd_per_million: Decimal | None) -> float | None:
    """Micro-dollars for one."""
    return None if usd_per_million is None else float(usd_per_million)


def _no_key() -> str:
    return ""
