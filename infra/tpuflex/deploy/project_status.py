"""The status of every stack of a project: what needs no call of its own is read once for all."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tpuflex.alerts.judgement import Judge, State
from tpuflex.alerts.rules import alert_rules
from tpuflex.errors import ApiError, NotFoundError, TpuflexError
from tpuflex.google.reading import Unread, read_all
from tpuflex.inventory.listing import ANY_ZONE
from tpuflex.measure.alerts import look_of
from tpuflex.measure.usage import SOON_S
from tpuflex.measure.watched import WatchedEndpoint, close
from tpuflex.operate.endpoint_status import EndpointStatus, status_in_cloud
from tpuflex.operate.tpu_lists import TpuLists
from tpuflex.planning.cost import usd
from tpuflex.stack.emulator import Daemon

if TYPE_CHECKING:
    from tpuflex.alerts.rules import AlertRule
    from tpuflex.deploy.known_stacks import KnownStack
    from tpuflex.measure.metrics import EngineMetrics
    from tpuflex.measure.usage import Usage
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack

Connect = Callable[["Stack"], "Connection"]
#: Seconds for all endpoints together to be looked at twice, before the first screen.
_LOOKS_WITHIN_S = 20.0


@dataclass(frozen=True, slots=True)
class StackRow:
    """One stack.

    Attributes:
        name: its name.
        status: its endpoint, as it was last read; None if it never was.
        error: why it could not be read this time; None where it was.
        age: seconds since it was last read; 0 where it has just been.
        usage: what its server counts, or has counted last; None where it has not said yet.
        unmeasured: why what it counts now is not known; empty where it is, and of one that does not
            serve.
        alerts: those that fire, as far as looks so far tell; None where it could not be read.
        reached: whether its cloud could be asked.
    """

    name: str
    status: EndpointStatus | None = None
    error: TpuflexError | None = None
    age: float = 0.0
    usage: Usage | None = None
    unmeasured: str = ""
    alerts: tuple[AlertRule, ...] | None = None
    reached: bool = True

    @property
    def up(self) -> bool:
        """Whether it has a slice, as far as is known here: a stack without a state, whose cloud
        cannot be asked, counts as not up."""
        return not isinstance(self.error, NotFoundError)

    @property
    def stale(self) -> bool:
        """Whether it is as it was read earlier."""
        return self.status is not None and self.error is not None

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that its server generates a second; None where that is not known."""
        interval = self.usage.interval if self.usage is not None and not self.usage.why else None
        return None if interval is None else interval.rate(interval.generation_tokens)

    @property
    def phase(self) -> str:
        """How far its host is, or what its server does; empty before it says anything."""
        host = self.status.slice.host if self.status is not None else None
        if host is None:
            return ""
        return host.serving.phase.value if host.ready and host.serving else host.phase

    @property
    def exit_code(self) -> int:
        """As ``tpuflex status`` has it; of one that could not be read, that of the error."""
        if self.error is not None:
            return self.error.exit_code
        return 0 if self.status is None else self.status.exit_code

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex status --all --json``."""
        status, slice_ = self.status, self.status.slice if self.status is not None else None
        return {
            "stack": self.name,
            "up": self.up,
            "ready": status is not None and status.ready,
            "state": None if slice_ is None else slice_.state,
            "standing": None if slice_ is None else slice_.condition.value,
            "phase": self.phase or None,
            "zone": None if slice_ is None else slice_.zone,
            "expires": slice_ and slice_.expires and slice_.expires.isoformat(),
            "usd_per_hour": usd(status.per_hour) if status is not None else None,
            "usd_so_far": usd(status.spent) if status is not None else None,
            "tokens_per_second": self.tokens_per_second,
            "unmeasured": self.unmeasured or None,
            "health": status and status.health and status.health.to_json(),
            "alerts": None if self.alerts is None else [each.name for each in self.alerts],
            "stale": self.stale,
            "age_seconds": round(self.age, 1),
            "exit_code": self.exit_code,
            "error": None if self.error is None else self.error.to_json(self.name),
        }


@dataclass(frozen=True, slots=True)
class ProjectStatus:
    """All stacks of a project.

    Attributes:
        project: its name.
        at: when they were read, by this machine's clock.
        stacks: the stacks, by name.
    """

    project: str
    at: datetime
    stacks: tuple[StackRow, ...]

    @property
    def up(self) -> tuple[StackRow, ...]:
        """The stacks that have a slice, or may have one."""
        return tuple(each for each in self.stacks if each.up)

    @property
    def exit_code(self) -> int:
        """The highest of those that are up; that of an absence if none is."""
        return max((each.exit_code for each in self.up), default=NotFoundError.exit_code)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex status --all --json`` prints."""
        return {
            "project": self.project,
            "at": self.at.isoformat(),
            "exit_code": self.exit_code,
            "stacks": [each.to_json() for each in self.stacks],
        }


def status_of_all(
    project: str,
    known: Sequence[KnownStack],
    connect: Connect,
    *,
    without_state: Sequence[KnownStack] = (),
    tunnel: bool = True,
) -> ProjectStatus:
    """The status of every stack of a project.

    What the TPU API lists is listed once for each Google Cloud project and zone. Servers that are
    READY are asked what they count, for 20 seconds in all.

    Args:
        project: the project's name.
        known: the stacks that have a state.
        connect: connects to a stack's cloud, and starts nothing; called once for each cloud.
        without_state: the stacks that have a stack file alone.
        tunnel: whether tunnels may be opened to the servers.
    """
    watched = watch_all(project, known, connect, SOON_S, without_state=without_state, tunnel=tunnel)
    with closing(watched):
        return next(watched)


def watch_all(
    project: str,
    known: Sequence[KnownStack],
    connect: Connect,
    seconds: float,
    *,
    without_state: Sequence[KnownStack] = (),
    tunnel: bool = True,
    pause: Callable[[float], Any] = time.sleep,
) -> Generator[ProjectStatus]:
    """As :func:`status_of_all`, every so many seconds, without an end; what cannot be read any more
    is as it was read last. Tunnels stay open.

    Args:
        project, known, connect, without_state, tunnel: as there.
        seconds: from one look to the next.
        pause: waits that many seconds.
    """
    watch = _Watch(known, connect, without_state, seconds, tunnel=tunnel)
    try:
        while True:
            yield ProjectStatus(project, datetime.now(UTC), watch.look())
            pause(seconds)
    finally:
        watch.close()


#: A stack as its cloud has it, with the connection to that; or why it cannot be read.
_Found = tuple["Connection", EndpointStatus] | TpuflexError
#: What reads something, and its name.
_Read = tuple[str, Callable[[], Any]]


class _Watch:
    """What is kept from one look to the next."""

    def __init__(
        self,
        known: Sequence[KnownStack],
        connect: Connect,
        without_state: Sequence[KnownStack],
        seconds: float,
        *,
        tunnel: bool,
    ) -> None:
        every = sorted((*known, *without_state), key=lambda each: each.name)
        self._names = [each.name for each in every]
        self._errors = {each.name: each.error for each in every if each.error is not None}
        self._clouds = _by_cloud(each.stack for each in every if each.stack is not None)
        self._recorded = {each.name for each in known}
        self._connect = connect
        self._seconds, self._tunnel = seconds, tunnel
        self._endpoints = dict[str, WatchedEndpoint]()
        self._before = dict[str, StackRow]()
        self._read_at = dict[str, float]()
        self._unreached = set[str]()
        self._judges = dict[str, Judge]()

    def look(self) -> tuple[StackRow, ...]:
        """How all of them are now."""
        found = self._read()
        self._watch(found)
        if not self._before:
            until = time.monotonic() + _LOOKS_WITHIN_S
            for each in self._endpoints.values():
                each.wait(until)
        self._before = {name: self._row(name, found[name]) for name in self._names}
        return tuple(self._before.values())

    def close(self) -> None:
        """Look at no endpoint any more."""
        close(self._endpoints.values())

    def _read(self) -> dict[str, _Found]:
        found = dict[str, _Found](self._errors)
        self._unreached.clear()
        lists, stacks = list[_Read](), list[_Read]()
        for group in self._clouds:
            try:
                cloud = self._connect(group[0])
                at = cloud.now()
            except TpuflexError as error:
                self._unreached.update(each.name for each in group)
                found |= {each.name: self._not_reached(each, error) for each in group}
                continue
            tpu, project = TpuLists(cloud.tpu), cloud.stack.settings.project
            zones = (zone for each in group for zone in each.settings.slice.zones)
            for zone in dict.fromkeys((*zones, ANY_ZONE)):
                for read in (tpu.list_queued_resources, tpu.list_nodes):
                    lists.append((zone, partial(read, project, zone)))
            for each in group:
                own = replace(cloud, stack=each, now=partial(_same, at))
                stacks.append((each.name, partial(_read_one, own, tpu)))
        answers = read_all((*lists, *stacks))[len(lists) :]
        for (name, _), answer in zip(stacks, answers, strict=True):
            if isinstance(answer, Unread):
                found[name] = answer.error or ApiError(answer.why)
            else:
                found[name] = answer
        return found

    def _not_reached(self, stack: Stack, error: TpuflexError) -> TpuflexError:
        """Why ``stack`` cannot be read, whose cloud cannot be reached. Nothing is up on an embedded
        cloud that does not run, and a stack without a state was never up here."""
        off = stack.embedded and Daemon(stack.project.home).address() is None
        if off or stack.name not in self._recorded:
            return NotFoundError(error.message, hint=error.hint)
        return error

    def _watch(self, found: Mapping[str, _Found]) -> None:
        """Look at each endpoint that is READY. One that does not answer any more, or is elsewhere,
        is reached once more; a stack that cannot be read says nothing against the looks so far."""
        over = list[WatchedEndpoint]()
        for name, answer in found.items():
            if isinstance(answer, TpuflexError) and not isinstance(answer, NotFoundError):
                continue
            there = answer[1].slice if isinstance(answer, tuple) else None
            endpoint = self._endpoints.get(name)
            if endpoint is not None and endpoint.looks_at(there):
                continue
            if endpoint is not None:
                over.append(self._endpoints.pop(name))
            if isinstance(answer, tuple) and answer[1].slice.ready:
                cloud, status = answer
                self._endpoints[name] = WatchedEndpoint(
                    cloud, status.slice, self._seconds, tunnel=self._tunnel
                )
        close(over)

    def _row(self, name: str, answer: _Found) -> StackRow:
        now = time.monotonic()
        if isinstance(answer, TpuflexError):
            before = self._before.get(name)
            if before is None or isinstance(answer, NotFoundError):
                return StackRow(name, error=answer, reached=name not in self._unreached)
            return replace(before, error=answer, age=now - self._read_at.get(name, now))
        self._read_at[name] = now
        _, status = answer
        endpoint = self._endpoints.get(name)
        if endpoint is None:
            return StackRow(name, status, alerts=self._firing(name, status, None))
        why, usage = endpoint.unmeasured, endpoint.usage
        error = endpoint.error or ApiError(why)
        metrics = error if why or usage is None else usage.metrics
        in_flight = None if usage is None else usage.in_flight
        return StackRow(
            name,
            replace(status, health=endpoint.health),
            usage=usage,
            unmeasured=why,
            alerts=self._firing(name, status, metrics, in_flight),
        )

    def _firing(
        self,
        name: str,
        status: EndpointStatus,
        metrics: EngineMetrics | TpuflexError | None,
        in_flight: int | None = None,
    ) -> tuple[AlertRule, ...]:
        """The alerts that fire at this look, and those before it."""
        settings = status.stack.settings
        if name not in self._judges:
            self._judges[name] = Judge(alert_rules(settings))
        at = datetime.now(UTC)
        look, _ = look_of(settings, status.slice, status.at, metrics, at, in_flight)
        verdicts = self._judges[name].look(look)
        return tuple(each.rule for each in verdicts if each.state is State.FIRING)


def _read_one(cloud: Connection, tpu: TpuLists) -> tuple[Connection, EndpointStatus]:
    return cloud, status_in_cloud(cloud, tpu)


def _same(at: datetime) -> datetime:
    return at


def _by_cloud(stacks: Iterable[Stack]) -> tuple[tuple[Stack, ...], ...]:
    """The stacks that one connection reaches."""
    clouds: dict[tuple[bool, bool, str], list[Stack]] = {}
    for each in stacks:
        key = (each.embedded, each.rehearsed, each.settings.project)
        clouds.setdefault(key, []).append(each)
    return tuple(map(tuple, clouds.values()))
