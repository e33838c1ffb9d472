"""All upstreams of a gateway, by their names and by the models that clients ask for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.files.trusted import read_private
from tpuflex.gateway.config import served_models
from tpuflex.gateway.connection import Connection, open_session
from tpuflex.gateway.discovery import (
    ANY_SERVER,
    FoundSlice,
    StackDiscovery,
    Way,
    has_priorities,
    in_flight_band,
)
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.stack_upstreams import StackUpstreams
from tpuflex.gateway.upstream import Upstream
from tpuflex.gateway.upstream_watch import UpstreamWatch
from tpuflex.settings.gateway import InFlightBand, UpstreamSettings
from tpuflex.stack.progress import Progress, Report, silent

if TYPE_CHECKING:
    from tpuflex.settings.gateway import GatewaySettings
    from tpuflex.stack.connection import Connection as StackConnection
    from tpuflex.stack.stack import Stack


def _as_it_was(stack: Stack) -> Stack:
    return stack


class Fleet:
    """The upstreams. All times are of one monotonic clock, in seconds.

    Args:
        settings: which upstreams and models there are.
        stacks: the stacks among them, by name; without ``upstreams`` in the settings, the one.
        connect: connects to a stack's cloud, in a thread.
        reopen: opens a stack again whose file has changed, in a thread; by default it is not.
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
        reopen: Callable[[Stack], Stack] = _as_it_was,
        report: Report = silent,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._settings = settings
        self._upstreams = settings.behind(stacks)
        self._stacks, self._connect, self._reopen = dict(stacks), connect, reopen
        self._files, self._report = files, report
        self._surroundings = (self._said, now, pause)
        self._learns = any(each.first_token.learn for each in settings.all_classes.values())
        self._routes = self._routes_of_settings()
        #: By name in the settings, those that are there now.
        self._watches: dict[str, tuple[UpstreamWatch, ...]] = dict.fromkeys(self._upstreams, ())
        self._by_upstream: dict[Upstream, UpstreamWatch] = {}
        self._stack_upstreams: dict[str, StackUpstreams] = {}
        #: The models that nothing serves, as reported last.
        self._unserved: frozenset[str] = frozenset()
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

    def serving(self, model: str) -> int:
        """How many upstreams take requests for a model."""
        return sum(each.serves for pool in self.pools(model) for each in pool)

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

    def doubt(self, upstream: Upstream) -> asyncio.Future[bool]:
        """``upstream``, which has a request, has failed one that may be to blame itself: it is
        asked for a token at once, and gets no more requests if it makes none. What is returned
        says whether it does, and need not be waited for."""
        return self._by_upstream[upstream].doubt()

    def unseen_stacks(self) -> Mapping[str, str]:
        """Those stacks, by their names among the upstreams, of which there is no slice, with why,
        and what to do about it."""
        return {
            name: f"{name}: {each.problem}" if each.problem else self._without_slice(name)
            for name, each in self._stack_upstreams.items()
            if each.is_empty
        }

    def _without_slice(self, name: str) -> str:
        stack = self._stacks[self._upstreams[name].stack or ""]
        return f"Stack {stack.name} has no slice. Next: {stack.advise(Advice('{up}'))}"

    async def settled(self) -> None:
        """Wait until every upstream that is there has been asked once."""
        await self._settled.wait()

    async def run(self) -> None:
        """Watch all of them until this is cancelled; then connections and tunnels are closed."""
        async with asyncio.TaskGroup() as tasks:
            watches = list[UpstreamWatch]()
            for name, settings in self._upstreams.items():
                if settings.stack is not None:
                    stack = self._of_stack(name, settings, settings.stack)
                    self._stack_upstreams[name] = stack
                    tasks.create_task(stack.follow(tasks))
                else:
                    watches.append(self._url_watch(name, settings))
                    tasks.create_task(self._serve(name, watches[-1]))
            for watch in watches:
                await watch.asked.wait()
            for each in self._stack_upstreams.values():
                await each.asked()
            self._settled.set()
            self._say_unserved()

    def _said(self, progress: Progress) -> None:
        """Hand on a line: what becomes of an upstream is said once it has, so models may have lost
        their last one, or got their first."""
        self._report(progress)
        self._say_unserved()

    def _say_unserved(self) -> None:
        """Say which models nothing serves, once each time that it comes to that."""
        if not self._settled.is_set():
            return
        before, self._unserved = self._unserved, frozenset(self._without_upstream())
        for model in sorted(self._unserved - before):
            # Of those that are closed, and of a cloud that cannot be asked, that is said already.
            down = (
                f" {self._without_slice(name)}"
                for pool in self._routes[model]
                for name in pool
                if (stack := self._stack_upstreams.get(name)) is not None
                and stack.is_empty
                and not stack.problem
            )
            self._report(f"Nothing serves {model} now.{''.join(down)}")

    def _without_upstream(self) -> Iterator[str]:
        for model in self.models():
            if not self.serving(model):
                yield model

    async def _serve(self, name: str, watch: UpstreamWatch) -> None:
        """Have an upstream until it is gone, and all that it had in flight has ended."""
        self._by_upstream[watch.upstream] = watch
        self._set_watches(name, (*self._watches[name], watch))
        try:
            await watch.run()
        finally:
            del self._by_upstream[watch.upstream]
            self._set_watches(
                name, tuple(each for each in self._watches[name] if each is not watch)
            )

    def _set_watches(self, name: str, watches: tuple[UpstreamWatch, ...]) -> None:
        self._watches[name] = watches
        self._pools.clear()

    def _url_watch(self, name: str, settings: UpstreamSettings) -> UpstreamWatch:
        url, model, file = (settings.url or "").rstrip("/"), settings.model or "", settings.key_file
        upstream = self._upstream(name, url, model, settings.in_flight or ANY_SERVER)
        key = partial(read_private, self._files / file) if file is not None else _no_key
        connection = _connection(upstream, settings)
        connection.priority_scheduling = settings.priority_scheduling
        return UpstreamWatch(connection, key, *self._surroundings, learns=self._learns)

    def _of_stack(self, name: str, settings: UpstreamSettings, stack: str) -> StackUpstreams:
        return StackUpstreams(
            name,
            StackDiscovery(self._stacks[stack], self._connect, self._reopen),
            watch=partial(self._slice_watch, settings),
            serve=partial(self._serve, name),
            changed=self._set_stack,
            surroundings=self._surroundings,
        )

    def _set_stack(self, stack: Stack) -> None:
        """A stack's file was read again; the models that clients may ask for may be others."""
        self._stacks[stack.name] = stack
        self._routes = self._routes_of_settings()
        self._pools.clear()
        self._said(f"{stack.name}: its stack file has changed, and was read again.")

    def _slice_watch(
        self,
        settings: UpstreamSettings,
        stack: Stack,
        name: str,
        found: FoundSlice,
        way: Way,
        noticed: Callable[[], None],
    ) -> UpstreamWatch:
        band = settings.in_flight or in_flight_band(stack.settings, found.status.host)
        upstream = self._upstream(name, way.url, stack.settings.model.name, band)
        connection = _connection(upstream, settings, way.fingerprint)
        connection.priority_scheduling = has_priorities(stack.settings)
        connection.role_with_first_token = True
        return UpstreamWatch(
            *(connection, way.key, *self._surroundings),
            learns=self._learns,
            stack=stack,
            noticed=noticed,
        )

    def _upstream(self, name: str, url: str, model: str, band: InFlightBand) -> Upstream:
        limit = InFlightLimit(band.least, band.most)
        return Upstream(name, url, model, limit, most_kv_use=self._settings.kv_use)

    def _routes_of_settings(self) -> dict[str, tuple[tuple[str, ...], ...]]:
        return self._settings.routes(served_models(self._upstreams, self._stacks))


def _connection(
    upstream: Upstream, settings: UpstreamSettings, fingerprint: str = ""
) -> Connection:
    return Connection(
        upstream,
        open_session(fingerprint),
        prompt_usd_micros=_micros(settings.usd_per_million_prompt),
        generated_usd_micros=_micros(settings.usd_per_million_generated),
    )


def _micros(usd_per_million: Decimal | None) -> float | None:
    """Micro-dollars for one."""
    return None if usd_per_million is None else float(usd_per_million)


def _no_key() -> str:
    return ""
