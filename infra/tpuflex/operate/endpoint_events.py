"""What has happened to an endpoint, in one list: from what the TPU API, the hosts' logs, Cloud
Audit Logs and Pulumi's history keep anyway.

Anyone with root on a host can write its log: nothing is decided by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.advice import Advice
from tpuflex.duration import format_roughly
from tpuflex.engine.commands import Target
from tpuflex.engine.find import search
from tpuflex.engine.history import Run, runs_in_files, runs_of
from tpuflex.engine.state_files import file_backend
from tpuflex.errors import EngineError, TpuflexError
from tpuflex.google.cloud_logging import (
    BootEntry,
    Change,
    LeftOut,
    boot_entries,
    changes,
)
from tpuflex.host.report import READY
from tpuflex.operate.boots import Boot, Outcome, recent_boots
from tpuflex.operate.slice import requests_of
from tpuflex.queued_resource.snapshot import Snapshot, parse_time, run_end
from tpuflex.queued_resource.states import Lifecycle

if TYPE_CHECKING:
    from tpuflex.queued_resource.model import Node
    from tpuflex.stack.connection import Connection

#: A line that the watch of a host has written after READY (startup/watch_log.py).
_WATCH = re.compile(r"(\S+Z) watch: (serving|draining|degraded|failed)\b(?:, )?(.*)")
#: By how much a host's clock may be ahead of Google's: a later time that it writes is not believed.
#: An earlier one may be true, where Cloud Logging did not take the line at once.
_AHEAD = timedelta(minutes=5)
#: Changes of one kind by one principal are one event, as long as no more time is between two.
_TOGETHER = timedelta(minutes=2)
_COMMANDS = {"update": "up", "destroy": "down"}
_KINDS = {"create": "created", "insert": "created", "add": "created", "delete": "deleted"}


@dataclass(frozen=True, slots=True)
class Event:
    """Something that has happened, or of maintenance, that is announced.

    Attributes:
        time: when.
        what: in a word or two: ``requested``, ``granted``, ``run ended``, ``maintenance`` of a
            slice; ``boot``, ``READY``, ``boot failed`` of a host, and ``serving``, ``draining``,
            ``degraded``, ``failed`` of its server; ``created``, ``changed``, ``deleted``,
            ``refused`` of resources; ``up``, ``down`` and Pulumi's other words of a run of Pulumi.
        who: the account that did it, or the slice, node or host that it happened to; or empty.
        detail: more in a sentence; or empty.
        resources: what was changed.
    """

    time: datetime
    what: str
    who: str
    detail: str = ""
    resources: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """It under ``events`` of the document that ``tpuflex events --json`` prints."""
        return {
            "time": self.time.astimezone(UTC).isoformat(),
            "what": self.what,
            "who": self.who,
            "detail": self.detail,
            "resources": list(self.resources),
        }


@dataclass(frozen=True, slots=True)
class UnreadSource:
    """A source that could not be read, or not as far back as was asked for.

    Attributes:
        source: which.
        why: the reason.
        hint: what to do about it.
    """

    source: str
    why: str
    hint: Advice

    def to_json(self, stack: str) -> dict[str, object]:
        """It under ``unread`` of what ``tpuflex events --json`` prints of ``stack``."""
        return {"source": self.source, "why": self.why, "hint": self.hint.for_stack(stack)}


@dataclass(frozen=True, slots=True)
class Events:
    """What has happened to an endpoint.

    Attributes:
        stack: its stack.
        since: from when on.
        events: what has happened, the newest last.
        unread: what is missing in them.
    """

    stack: str
    since: datetime
    events: tuple[Event, ...]
    unread: tuple[UnreadSource, ...]

    def newest(self, count: int) -> Events:
        """The same with the last ``count`` events alone."""
        return replace(self, events=self.events[-count:])

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex events --json`` prints."""
        return {
            "since": self.since.astimezone(UTC).isoformat(),
            "events": [event.to_json() for event in self.events],
            "unread": [each.to_json(self.stack) for each in self.unread],
        }


def events(cloud: Connection, since: datetime) -> Events:
    """What has happened to the endpoint of the stack of ``cloud`` from ``since`` on.

    Raises:
        TpuflexError: none of the sources can be read.
    """
    sources: dict[str, Callable[[Connection, datetime, LeftOut], Iterable[Event]]] = {
        "Cloud TPU": _of_slices,
        "the hosts' logs in Cloud Logging": _of_hosts,
        "Cloud Audit Logs": _of_people,
        "Pulumi's history": _of_pulumi,
    }
    found: list[Event] = []
    unread: list[UnreadSource] = []
    shortened: list[UnreadSource] = []
    for source, read in sources.items():
        left_out: list[str] = []
        try:
            found += read(cloud, since, left_out.append)
        except TpuflexError as error:
            if len(unread) == len(sources) - 1:
                raise
            unread.append(UnreadSource(source, error.brief, error.hint))
        shortened += (UnreadSource(source, why, Advice("")) for why in left_out)
    return Events(cloud.stack.name, since, merged(found, since), (*unread, *shortened))


def merged(found: Iterable[Event], since: datetime) -> tuple[Event, ...]:
    """Each of ``found`` once, from ``since`` on, the newest last."""
    once = dict.fromkeys(event for event in found if event.time >= since)
    return tuple(sorted(once, key=lambda event: event.time))


def _of_slices(cloud: Connection, _since: datetime, _left_out: LeftOut) -> Iterator[Event]:
    stack, now = cloud.stack, cloud.now()
    for seen in requests_of(
        stack.settings, stack.names, cloud.tpu, now.timestamp(), cloud.recorded_zones
    ):
        yield from slice_events(seen, now)


def slice_events(seen: Snapshot, now: datetime) -> Iterator[Event]:
    """What the TPU API says of when something happened to a request and its nodes."""
    asked, request = parse_time(seen.created), seen.queued_resource
    if asked is not None:
        failure = f": {seen.failure.message}" if seen.failure is not None else ""
        detail = f"in {seen.name.zone}; it is {seen.state} now{failure}"
        yield Event(asked, "requested", seen.name.id, printable(detail))
    for node in seen.nodes.found:
        made = parse_time(node.create_time)
        if made is not None:
            detail = f"{node.accelerator_type} in {seen.name.zone}".strip()
            yield Event(made, "granted", node.id, detail)
        yield from _maintenance(node)
        end = None if request is None else run_end(request, node)
        if seen.lifecycle is Lifecycle.ENDED and end is not None and end <= now:
            yield Event(end, "run ended", node.id, "Google took the hosts back")


def _maintenance(node: Node) -> Iterator[Event]:
    """https://cloud.google.com/tpu/docs/view-maintenance-notifications"""
    coming = node.upcoming_maintenance
    begin = None if coming is None else parse_time(coming.window_start_time)
    if coming is None or begin is None:
        return
    end = parse_time(coming.window_end_time)
    until = "" if end is None else f", over by {end:%Y-%m-%d %H:%M} UTC"
    detail = f"{coming.type.lower()}, {coming.maintenance_status.lower()}{until}"
    yield Event(begin, "maintenance", node.id, printable(detail))


def _of_hosts(cloud: Connection, since: datetime, left_out: LeftOut) -> Iterator[Event]:
    stack = cloud.stack
    project, names = stack.settings.project, stack.names
    entries = boot_entries(cloud.logging, project, names, since=since, left_out=left_out)
    return host_events(tuple(entries))


def host_events(entries: Sequence[BootEntry]) -> Iterator[Event]:
    """What hosts have written down: their boots, and what their watches say after READY.

    Args:
        entries: in order of time.
    """
    for boot in recent_boots(reversed(entries), len(entries)):
        yield from _boot(boot)
    for entry in entries:
        for found in filter(None, map(_WATCH.fullmatch, entry.lines)):
            time, phase, said = found.groups()
            if (then := parse_time(time)) is not None:
                then = _believed(then, datetime.fromisoformat(entry.time))
                where = _host(printable(entry.node), entry.worker)
                yield Event(then, phase, where, printable(said.removeprefix(": ")))


def _believed(said: datetime, heard: datetime) -> datetime:
    """When something happened by a host's own clock, unless it was heard of before."""
    return said if said - heard <= _AHEAD else heard


def _boot(boot: Boot) -> Iterator[Event]:
    host = _host(boot.node, boot.worker)
    heard = datetime.fromisoformat(boot.time)
    began = min(boot.timeline.values(), default=None)
    begin = heard if began is None else _believed(datetime.fromtimestamp(began, UTC), heard)
    unfinished = boot.outcome is Outcome.UNFINISHED
    came_to = f"no end yet, or the host was lost: in {boot.phase or 'its first phase'}"
    yield Event(begin, "boot", host, came_to if unfinished else "")
    if boot.outcome is Outcome.SERVED:
        at = boot.timeline.get(READY)
        ready = heard if at is None else _believed(datetime.fromtimestamp(at, UTC), heard)
        took = format_roughly(timedelta(seconds=boot.total))
        yield Event(ready, "READY", host, f"after {took}" if boot.seconds else "")
    elif boot.outcome is Outcome.FAILED:
        first = (boot.reason.splitlines() or [""])[0]
        yield Event(heard, "boot failed", host, f"in {boot.phase or 'its first phase'}: {first}")


def _host(node: str, worker: int) -> str:
    return f"{node} host {worker}" if worker else node


def _of_people(cloud: Connection, since: datetime, left_out: LeftOut) -> Iterator[Event]:
    project, names = cloud.stack.settings.project, cloud.stack.names
    return change_events(changes(cloud.logging, project, names, since, left_out))


def change_events(found: Iterable[Change]) -> Iterator[Event]:
    """What people and programs changed. An `up` makes some twenty resources: those of one kind of
    change by one principal that come soon after one another are one event.

    Args:
        found: in order of time.
    """
    open_events: dict[tuple[str, str, str], tuple[datetime, Event]] = {}
    for change in found:
        time = parse_time(change.time)
        if time is None or (change.ends_operation and not change.refusal):
            continue
        event = _change(time, change)
        key = (event.what, event.who, event.detail)
        last, group = open_events.get(key, (time, None))
        if group is not None and time - last <= _TOGETHER:
            named = dict.fromkeys((*group.resources, *event.resources))
            event = replace(group, resources=tuple(named))
        elif group is not None:
            yield group
        open_events[key] = (time, event)
    for _, group in open_events.values():
        yield group


def _change(time: datetime, change: Change) -> Event:
    method = change.method.rpartition(".")[2]
    verb = re.match(r"[a-z]+", f"{method[:1].lower()}{method[1:]}")
    what = _KINDS.get(verb[0] if verb else "", "changed")
    detail = method if what == "changed" else ""
    if change.refusal:
        what, detail = "refused", f"{method}: {change.refusal}"
    who = change.principal or "not named by Google"
    return Event(time, what, printable(who), printable(detail), (printable(_resource(change)),))


def _resource(change: Change) -> str:
    """The resource without the project, and where it is; of a resource that holds the endpoint's
    own, both."""
    name = re.sub(r"^projects/[^/]+/(?=.)", "", change.resource)
    name = re.sub(r"^(?:global|(?:locations|zones|regions)/[^/]+)/(?=.)", "", name)
    return name if change.named in name else f"{name} ({change.named})".lstrip()


def _of_pulumi(cloud: Connection, since: datetime, _left_out: LeftOut) -> Iterable[Event]:
    project, stack = cloud.stack.project, cloud.stack.name
    backend = file_backend(cloud.environ.get("PULUMI_BACKEND_URL", ""))
    if backend is not None:
        return map(run_event, runs_in_files(backend, project.name, stack, since))
    engine = search(project.home, cloud.environ).engine
    if engine is None:
        raise EngineError(
            "there is no Pulumi engine to ask, and to build one takes minutes",
            hint="tpuflex engine --install",
        )
    target = Target(cloud.stack.engine_project, stack, engine, cloud.environ)
    return map(run_event, runs_of(target, since))


def run_event(run: Run) -> Event:
    """A run of Pulumi; the state does not say who ran it."""
    counts = ", ".join(f"{what} {count}" for what, count in sorted(run.changes.items()) if count)
    took = format_roughly(run.ended - run.began)
    said = f"{run.result} after {took}" + (f": {counts}" if counts else "")
    return Event(run.began, _COMMANDS.get(run.kind, run.kind), "", said)
