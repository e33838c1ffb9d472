"""All upstreams of a gateway, by their names and by the models that clients ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.files.trusted import read_private
from tpuflex.gateway.connection import Connection, open_session
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.upstream import Upstream
from tpuflex.gateway.upstream_watch import UpstreamWatch
from tpuflex.settings.gateway import InFlightBand, UpstreamSettings
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.settings.gateway import GatewaySettings, RouteSettings
    from tpuflex.stack.connection import Connection as StackConnection
    from tpuflex.stack.stack import Stack

#: Where the limit of a server moves of which nothing else is known.
_BAND = InFlightBand(least=1, most=256)


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
        route: RouteSettings | None = self._settings.models.get(model)
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
        """Watch all of them until this is cancelled; then their connections are closed."""
        async with asyncio.TaskGroup() as tasks:
            for name, settings in self._upstreams.items():
                if settings.url is not None:
                    self._begin(tasks, name, self._url_watch(name, settings))
            for watch in tuple(self._by_upstream.values()):
                await watch.asked.wait()
            self._settled.set()
            await asyncio.Event().wait()

    def _begin(self, tasks: asyncio.TaskGroup, name: str, watch: UpstreamWatch) -> None:
        """An upstream is there."""
        self._by_upstream[watch.upstream] = watch
        self._watches[name] = (*self._watches[name], watch)
        self._pools.clear()
        tasks.create_task(self._watch(watch))

    async def _watch(self, watch: UpstreamWatch) -> None:
        try:
            await watch.run()
        finally:
            del self._by_upstream[watch.upstream]

    def _url_watch(self, name: str, settings: UpstreamSettings) -> UpstreamWatch:
        band = settings.in_flight or _BAND
        upstream = Upstream(
            name,
            url=(settings.url or "").rstrip("/"),
            model=settings.model or "",
            limit=InFlightLimit(band.least, band.most),
            most_kv_use=self._settings.kv_use,
        )
        connection = Connection(
            upstream,
            open_session(),
            priority_scheduling=settings.priority_scheduling,
            prompt_usd_micros=_micros(settings.usd_per_million_prompt),
            generated_usd_micros=_micros(settings.usd_per_million_generated),
        )
        file = settings.key_file
        key = partial(read_private, self._files / file) if file is not None else lambda: ""
        return UpstreamWatch(connection, key, self._report, self._now, self._pause)

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


def _micros(usd_per_million: Decimal | None) -> float | None:
    """Micro-dollars for one."""
    return None if usd_per_million is None else float(usd_per_million)
