"""The slices of a stack as upstreams, each by a way that is kept open: from when its host boots, so
that the way is there when the host takes over from another."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from tpuflex.errors import TpuflexError
from tpuflex.gateway.threads import first_of, in_thread

if TYPE_CHECKING:
    from tpuflex.gateway.discovery import FoundSlice, Look, Place, StackDiscovery, Way
    from tpuflex.gateway.upstream_watch import UpstreamWatch
    from tpuflex.stack.progress import Progress, Report
    from tpuflex.stack.stack import Stack

#: Seconds from one look at the slices to the next; and to one that is made because one of them
#: stops taking requests: another one may have begun to.
_LOOK_S = 5.0
_SOON_S = 1.0


@dataclass(slots=True, eq=False)
class _Slice:
    """A slice that is an upstream, or will be once there is a way to it.

    Attributes:
        found: it, as the cloud had it last.
        stack: its stack, as it was when the way was made.
        watch: what watches it; None before there is a way.
        way: the way.
        began: set when it is watched, or there is no way.
        gone: whether it is no longer there.
    """

    found: FoundSlice
    stack: Stack
    watch: UpstreamWatch | None = None
    way: Way | None = None
    began: asyncio.Event = field(default_factory=asyncio.Event)
    gone: bool = False

    def needs_another_way(self, stack: Stack) -> bool:
        """Whether its tunnel has broken; or it does not answer, and ``stack`` has changed since,
        with it perhaps its certificate."""
        if self.watch is None or self.way is None or self.watch.upstream.open:
            return False
        return self.stack is not stack or (self.way.tunnelled and self.watch.is_refused)


class StackUpstreams:
    """Has the slices of a stack as upstreams.

    Args:
        name: the stack's name among the upstreams.
        discovery: finds its slices.
        watch: makes what watches a slice: of the stack, by its name, the slice, the way to it, and
            what is called when it stops taking requests.
        serve: has an upstream until it is gone, and all that it had in flight has ended.
        changed: called when the stack's file was read again.
        surroundings: what receives lines on ways, and on what is wrong; a monotonic clock, in
            seconds; and what waits so many seconds.
    """

    def __init__(
        self,
        name: str,
        discovery: StackDiscovery,
        *,
        watch: Callable[[Stack, str, FoundSlice, Way, Callable[[], None]], UpstreamWatch],
        serve: Callable[[UpstreamWatch], Awaitable[None]],
        changed: Callable[[Stack], None],
        surroundings: tuple[Report, Callable[[], float], Callable[[float], Awaitable[None]]],
    ) -> None:
        self._name, self._discovery = name, discovery
        self._watch, self._serve, self._changed = watch, serve, changed
        self._report, self._now, self._pause = surroundings
        self._stack = discovery.stack
        self._slices: dict[Place, _Slice] = {}
        self._looked, self._noticed = asyncio.Event(), asyncio.Event()
        #: What is wrong with what, as it was said.
        self._problems: dict[str, str] = {}

    async def asked(self) -> None:
        """Wait until slices were looked for, and each that was ready then was asked."""
        await self._looked.wait()
        for each in tuple(self._slices.values()):
            if each.found.ready:
                await each.began.wait()
                if each.watch is not None:
                    await each.watch.asked.wait()

    @property
    def is_empty(self) -> bool:
        """Whether slices were looked for, and there is none."""
        return self._looked.is_set() and not self._slices

    @property
    def problem(self) -> str:
        """Why its slices cannot be read, or why there is no way to one of them; empty if nothing is
        wrong."""
        return next(iter(self._problems.values()), "")

    async def follow(self, tasks: asyncio.TaskGroup) -> None:
        """Look at the slices again and again. While the cloud cannot be asked, they stay as they
        are."""
        while True:
            try:
                look = await in_thread(self._discovery.look)
            except Exception as error:  # the gateway, and all others, go on whatever it is
                self._say_problem(self._name, "its slices cannot be read", error)
            else:
                self._update(tasks, look)
            self._looked.set()
            self._noticed.clear()
            await self._pause(_SOON_S)
            await first_of(self._pause(_LOOK_S - _SOON_S), self._noticed.wait())

    def _update(self, tasks: asyncio.TaskGroup, look: Look) -> None:
        there = {self._slice_name(each) for each in look.slices.values()}
        self._problems = {name: said for name, said in self._problems.items() if name in there}
        if self._stack is not self._discovery.stack:
            self._stack = self._discovery.stack
            self._changed(self._stack)
        for place, one in tuple(self._slices.items()):
            one.found = look.slices.get(place, one.found)
            if look.is_gone(place):
                self._leave(place, one, "is gone")
            elif one.needs_another_way(self._stack):
                self._leave(place, one, "gets another way")
            elif one.watch is not None:
                self._follow_run(one.watch, one.found)
        for place, found in look.slices.items():
            if place not in self._slices and not found.draining:
                one = self._slices[place] = _Slice(found, self._stack)
                tasks.create_task(self._serve_slice(place, one))

    def _leave(self, place: Place, one: _Slice, why: str) -> None:
        one.gone = True
        del self._slices[place]
        if one.watch is not None:
            one.watch.gone(why)

    async def _serve_slice(self, place: Place, one: _Slice) -> None:
        name, loop = self._slice_name(one.found), asyncio.get_running_loop()

        def report(progress: Progress) -> None:
            loop.call_soon_threadsafe(self._report, progress)

        way = self._discovery.way(one.found.status, report)
        try:
            one.way = await in_thread(way.__enter__)
        except Exception as error:  # it is tried again after the next look
            self._say_problem(name, "there is no way to it", error)
            if not one.gone:
                del self._slices[place]
            one.began.set()
            return
        self._problems.pop(name, None)
        try:
            if not one.gone:
                notice = self._noticed.set
                one.watch = self._watch(one.stack, name, one.found, one.way, notice)
                self._follow_run(one.watch, one.found)
                one.began.set()
                await self._serve(one.watch)
        finally:
            one.began.set()
            await in_thread(partial(way.__exit__, None, None, None))

    def _slice_name(self, found: FoundSlice) -> str:
        return f"{self._name}/{found.node}"

    def _follow_run(self, watch: UpstreamWatch, found: FoundSlice) -> None:
        """Have an upstream end, and drain, when its run does."""
        watch.upstream.ends = None if found.ends_in is None else self._now() + found.ends_in
        watch.drain(found.draining)
        watch.hold("" if found.ready else "its host boots")

    def _say_problem(self, name: str, what: str, error: Exception) -> None:
        """Say what is wrong, and what to do about it, once as long as it is the same."""
        why = error.message if isinstance(error, TpuflexError) else repr(error)
        hint = self._stack.advise(error.hint) if isinstance(error, TpuflexError) else ""
        said = f"{what}: {why.rstrip('.')}. {hint}".rstrip()
        if self._problems.get(name) != said:
            self._problems[name] = said
            self._report(f"{name}: {said}")
