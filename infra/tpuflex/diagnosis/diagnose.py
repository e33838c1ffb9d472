"""Gathers what is known of an endpoint, by the functions of the other commands, and judges it.

A source that cannot be read is named, and keeps no other from being read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from tpuflex.advice import Advice
from tpuflex.diagnosis.evidence import Evidence, Limits
from tpuflex.diagnosis.judge import Diagnosis, judge, judge_lines
from tpuflex.diagnosis.scrubber import Scrubber, scrubber_of
from tpuflex.diagnosis.signs import SERVER_LOG, Line
from tpuflex.doctor.examine import cloud_examinations
from tpuflex.doctor.side_by_side import examine_all
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.measure.usage import watch_usage
from tpuflex.operate.endpoint_events import Event, UnreadSource, events
from tpuflex.operate.endpoint_status import EndpointStatus, status
from tpuflex.operate.host_log import HostLog, Part, logs
from tpuflex.queued_resource.outcomes import Condition
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

T = TypeVar("T")
HOST_LOG = "host log"
#: Lines of a log that are read.
_LINES = 1000
#: Seconds for the doctor.
_PATIENCE_S = 16.0
#: How far back what was refused is looked for.
_LATELY = timedelta(hours=24)
#: Conditions in which nothing of the endpoint runs: what may keep an `up` from succeeding is asked.
_DOWN = (Condition.FAILED, Condition.NODE_MISSING, Condition.GONE)
#: Conditions in which the outcome of the last boot matters: no other has begun.
_PAST = (*_DOWN, Condition.ENDED, Condition.ORPHANED)


@dataclass
class Gathered:
    """What was read, without secrets.

    Attributes:
        scrub: removes them.
        evidence: what is judged.
        status: the endpoint's status; None where it has none, or it could not be read.
        logs: the logs that were read, by their source.
    """

    scrub: Scrubber
    evidence: Evidence = field(default_factory=Evidence)
    status: EndpointStatus | None = None
    logs: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def attempt(self, source: str, read: Callable[[], T]) -> T | None:
        """What ``read`` returns; None where it fails, which is kept."""
        try:
            found = read()
        except TpuflexError as error:
            self.add_unread((UnreadSource(source, error.brief, error.hint),))
            return None
        if source not in self.evidence.looked_at:
            looked_at = (*self.evidence.looked_at, source)
            self.evidence = replace(self.evidence, looked_at=looked_at)
        return found

    def add_unread(self, sources: Iterable[UnreadSource]) -> None:
        """Those of ``sources`` that are not known to be unread."""
        unread = {each.source: each for each in self.evidence.unread}
        for each in sources:
            unread.setdefault(each.source, replace(each, why=self.scrub(each.why)))
        self.evidence = replace(self.evidence, unread=tuple(unread.values()))

    def add_log(self, log: HostLog) -> None:
        """The lines of a log, of host and server."""
        self.add_lines(HOST_LOG, log.lines)
        self.add_lines(SERVER_LOG, log.server)

    def add_lines(self, source: str, lines: Iterable[str]) -> None:
        """Lines of one source, each once if it is read twice."""
        clean = self.scrub.lines(lines)
        if not clean:
            return
        known = self.logs.get(source, ())
        self.logs[source] = clean if set(known) <= set(clean) else (*known, *clean)
        added = tuple(
            Line(each, line) for each, lines in self.logs.items() for line in lines if line.strip()
        )
        self.evidence = replace(self.evidence, lines=added)


def diagnose(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> Diagnosis:
    """What is wrong with the endpoint of the stack of ``cloud``, if anything.

    Args:
        cloud: the stack's cloud.
        report: receives what is read, and why a tunnel is opened.
        tunnel: whether the host may be reached through IAP, for its log and its metrics.
    """
    return judged(cloud, gather(cloud, report, tunnel=tunnel))


def judged(cloud: Connection, found: Gathered) -> Diagnosis:
    """What ``found`` shows."""
    seen = found.status
    advice = Advice("`{up}` brings one up") if seen is None else seen.advice
    diagnosis, scrub = judge(cloud.stack.name, found.evidence, advice), found.scrub
    # What is not the text of a host, such as an error, is scrubbed here for the first time.
    findings = tuple(
        replace(each, lines=tuple(Line(line.source, scrub(line.text)) for line in each.lines))
        for each in diagnosis.findings
    )
    return replace(diagnosis, sentence=scrub(diagnosis.sentence), findings=findings)


def diagnose_log(text: str, source: str) -> Diagnosis:
    """What ``text`` of a log shows, of which nothing else is known.

    Args:
        text: the log.
        source: what it is called.
    """
    lines = Scrubber().lines(text.splitlines())
    return judge_lines((Line(source, line) for line in lines), source)


def gather(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> Gathered:
    """Read all that is known of the endpoint of the stack of ``cloud``; as :func:`diagnose`."""
    scrub, unread = scrubber_of(cloud)
    if unread:
        report(
            "These secrets could not be read, and so are shown where a log has them:"
            f" {', '.join(unread)}"
        )
    settings = cloud.stack.settings
    limits = Limits(
        first_report=settings.slice.timeouts.first_report,
        ready=settings.slice.timeouts.ready,
        secure_boot=settings.slice.secure_boot,
        project=settings.project,
    )
    found = Gathered(scrub, Evidence(limits=limits))
    _read_status(cloud, found, report, tunnel=tunnel)
    seen = found.status
    if seen is not None and (seen.ready or seen.slice.lifecycle is Lifecycle.WAITING):
        return found
    _read_logs(cloud, found, report, tunnel=tunnel)
    if seen is not None and seen.slice.ready and tunnel:
        _read_metrics(cloud, found, report)
    if _is_down(found):
        _read_refusals(cloud, found)
        _read_checks(cloud, found)
    return found


def _read_status(cloud: Connection, found: Gathered, report: Report, *, tunnel: bool) -> None:
    try:
        seen = status(cloud, report, tunnel=tunnel)
    except NotFoundError:
        found.evidence = replace(found.evidence, looked_at=("Cloud TPU",))
        return
    except TpuflexError as error:
        found.evidence = replace(found.evidence, refusal=error)
        found.add_unread((UnreadSource("Cloud TPU", error.brief, error.hint),))
        return
    found.status = seen
    host, scrub = seen.slice.host, found.scrub
    if host is not None:
        serving = host.serving and replace(host.serving, reason=scrub(host.serving.reason))
        host = replace(host, error=scrub(host.error), detail=scrub(host.detail), serving=serving)
    health = seen.health and replace(seen.health, why=scrub(seen.health.why))
    looked_at = ["Cloud TPU"]
    if seen.slice.lifecycle is Lifecycle.ACTIVE and not seen.slice.unread:
        looked_at.append("host report")
    if health is not None and health.answers is not None:
        looked_at.append("endpoint")
    if seen.slice.unread:
        hint = Advice("`{doctor}` examines permissions and policies")
        found.add_unread((UnreadSource("host report", seen.slice.unread, hint),))
    found.evidence = replace(
        found.evidence,
        slice=replace(
            seen.slice,
            host=host,
            error=scrub(seen.slice.error),
            unread=scrub(seen.slice.unread),
        ),
        at=seen.at,
        health=health,
        looked_at=tuple(looked_at),
    )


def _is_down(found: Gathered) -> bool:
    """Whether nothing of the endpoint runs, or its host is silent."""
    seen = found.evidence.slice
    if seen is None or seen.condition in _DOWN:
        return True
    return seen.condition is Condition.ACTIVE and seen.host is None


def _read_logs(cloud: Connection, found: Gathered, report: Report, *, tunnel: bool) -> None:
    """The log of the last boot in Cloud Logging; from the host itself what is not there yet: the
    log of a boot and of a server that go on."""
    seen = found.evidence.slice
    log = found.attempt("Cloud Logging", lambda: _log(cloud, Part(_LINES), kept=True))
    past = seen is None or seen.condition in _PAST
    if log is not None and log.boot is not None:
        same = seen is not None and seen.node.endswith(f"/{log.boot.node}")
        # What served, and is gone with its request, was taken down.
        if same or (past and log.boot.error):
            found.add_log(log)
        if past:
            found.evidence = replace(found.evidence, boot_error=found.scrub(log.boot.error))
    if seen is None or seen.condition is not Condition.ACTIVE or not seen.node_state:
        return
    reachable = tunnel or cloud.stack.embedded
    if not reachable or seen.host is None or (seen.host.error and log is not None):
        return
    for source, part in ((HOST_LOG, Part(_LINES)), (SERVER_LOG, Part(_LINES, server=True))):
        direct = found.attempt(source, partial(_log, cloud, part, report))
        if direct is not None and direct.boot is None:
            found.add_lines(source, direct.lines)


def _log(
    cloud: Connection, part: Part, report: Report = silent, *, kept: bool = False
) -> HostLog | None:
    """A log as :func:`logs` reads it; None if there is none."""
    try:
        log = logs(cloud, part, lambda _line: None, report, kept=kept)
    except NotFoundError:
        return None
    if log.exit_code:
        raise TpuflexError(f"gcloud, which reads it over SSH, ended with {log.exit_code}")
    return log


def _read_metrics(cloud: Connection, found: Gathered, report: Report) -> None:
    """Whether the engine makes steps, by two looks at what it counts."""

    def read() -> str:
        with closing(watch_usage(cloud, 1.0, report)) as looks:
            next(looks)
            usage = next(looks)
        return f"{usage.open_requests} requests in flight, and no step" if usage.stalled else ""

    stalled = found.attempt("metrics", read)
    found.evidence = replace(found.evidence, stalled=stalled or "")


def _read_refusals(cloud: Connection, found: Gathered) -> None:
    """Who deleted what the state still has, and what Google refused of the last changes, where
    nothing succeeded since."""
    since = cloud.now() - _LATELY
    seen = found.attempt("events", lambda: events(cloud, since))
    if seen is None:
        return
    found.add_unread(seen.unread)
    refused: list[Line] = []
    for event in seen.events:
        if event.what in ("created", "granted"):
            refused.clear()
        elif event.what == "refused":
            text = " ".join(filter(None, (event.detail, ", ".join(event.resources))))
            refused.append(Line("Cloud Audit Logs", found.scrub(text)))
    found.evidence = replace(found.evidence, refused=tuple(dict.fromkeys(refused)))
    if found.evidence.slice is None:
        ids = [request.partition(" ")[0] for request in cloud.recorded_requests()]
        deleted = (Line("events", found.scrub(line)) for line in deletions(seen.events, ids))
        found.evidence = replace(found.evidence, deleted=tuple(deleted))


def deletions(events: Iterable[Event], ids: Collection[str]) -> tuple[str, ...]:
    """Who deleted a request of one of ``ids``, or its node, without a `down`, and when.

    Args:
        events: in order of time.
        ids: of the requests that the state still has.
    """
    found: list[str] = []
    taken_down = False
    for event in events:
        named = [name for name in event.resources if name.rpartition("/")[2] in ids]
        if event.what in ("up", "down"):
            taken_down = event.what == "down"
        elif named and event.what == "created":
            found.clear()
        elif named and event.what == "deleted" and not taken_down:
            when = f"{event.time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
            found.append(f"{event.who} deleted {', '.join(named)} at {when}")
    return tuple(found)


def _read_checks(cloud: Connection, found: Gathered) -> None:
    """What the doctor finds that keeps an `up` from succeeding, or may."""
    listed = found.attempt(
        "doctor", lambda: [*chain(*examine_all(cloud_examinations(cloud), patience=_PATIENCE_S))]
    )
    wrong = (each for each in listed or () if each.may_be_refused)
    checks = tuple(replace(each, text=found.scrub(str(each.text))) for each in wrong)
    found.evidence = replace(found.evidence, checks=checks)
