"""From evidence to a diagnosis: pure rules.

Each piece of evidence is read by what knows it: the slice by its condition and the cause that
Google gives, the host by the code of its error, what it says from READY on, the server's health,
the doctor's checks, and lines of logs by their words. Of several classes the most causal is first:
a cause before a symptom, a code before words, and then the order of
:mod:`tpuflex.diagnosis.classes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.diagnosis.classes import CLASSES, UNKNOWN, FailureClass
from tpuflex.diagnosis.signs import (
    CAUSES,
    Line,
    Meaning,
    found_in,
    meaning_of_code,
    meaning_of_refusal,
    says_started_again,
    since_it_served,
    words_of,
)
from tpuflex.doctor.check import Check, Group, Standing
from tpuflex.duration import format_roughly
from tpuflex.errors import (
    AccessError,
    BootError,
    CapacityError,
    NotFoundError,
    QuotaError,
    ServiceDisabledError,
    TpuflexError,
    WeightsError,
)
from tpuflex.host.serving import ServingPhase
from tpuflex.queued_resource.causes import Cause, classify, remedy
from tpuflex.queued_resource.outcomes import Condition

if TYPE_CHECKING:
    from tpuflex.host.serving import Serving
    from tpuflex.operate.endpoint_events import UnreadSource
    from tpuflex.operate.health import Health
    from tpuflex.operate.slice import SliceStatus

#: Lines that are shown of a class: the first ones, and the last.
_SHOWN_LINES = 3
#: Letters of one; and of its words those by which two are the same.
_LINE, _SAME = 300, 60
_LOST = (Condition.NODE_MISSING, Condition.ORPHANED, Condition.DELETING)
_CLOUD_TPU, _REPORT, _ENDPOINT = "Cloud TPU", "host report", "endpoint"


class Certainty(StrEnum):
    """How sure a class is."""

    CERTAIN = "certain"  #: a code says so, of Google or of the host
    LIKELY = "likely"  #: words of a log say so, or it is of an earlier boot


class State(StrEnum):
    """Where the endpoint stands."""

    SERVES = "serves"
    WAITS = "waits"  #: in the queue, or its hosts are being made
    BOOTS = "boots"
    ABSENT = "absent"
    FAILS = "fails"
    UNREAD = "unread"
    LINES = "lines"  #: only lines were given


@dataclass(frozen=True, slots=True)
class Limits:
    """What the stack file allows, and asks for.

    Attributes:
        first_report: from the hosts' begin until the first report of one.
        ready: until it has served a completion.
        secure_boot: whether the hosts boot with Secure Boot.
        project: the Google Cloud project.
    """

    first_report: timedelta = timedelta(minutes=10)
    ready: timedelta = timedelta(hours=1)
    secure_boot: bool = False
    project: str = "PROJECT"


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that was read of an endpoint.

    Attributes:
        slice: its slice; None where there is none, or it could not be read.
        at: when that was read, on the cloud's clock; None without a slice.
        limits: what the stack file says.
        refusal: why the slice could not be read.
        lines: of the logs of host and server.
        boot_error: why the last boot of a host that is gone failed; or empty.
        health: whether the server answers; None where it was not asked.
        stalled: what the metrics say of an engine that makes no step; or empty.
        deleted: who deleted the slice that the state of the stack still has; empty for nobody.
        refused: what Google refused of the last changes.
        checks: of the doctor, those that failed, and warnings of what Google may refuse.
        looked_at: the sources that were read.
        unread: those that could not be.
    """

    slice: SliceStatus | None = None
    at: datetime | None = None
    limits: Limits = Limits()
    refusal: TpuflexError | None = None
    lines: tuple[Line, ...] = ()
    boot_error: str = ""
    health: Health | None = None
    stalled: str = ""
    deleted: tuple[Line, ...] = ()
    refused: tuple[Line, ...] = ()
    checks: tuple[Check, ...] = ()
    looked_at: tuple[str, ...] = ()
    unread: tuple[UnreadSource, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A class that the evidence shows.

    Attributes:
        failure: the class.
        certainty: how sure that is.
        lines: what shows it.
        remedy: the next command.
        cause: the likely cause.
    """

    failure: FailureClass
    certainty: Certainty
    lines: tuple[Line, ...]
    remedy: Advice
    cause: str

    def to_json(self, stack: str) -> dict[str, object]:
        """The class in the document of the :class:`Diagnosis` of ``stack``."""
        return {
            "class": self.failure.slug,
            "title": self.failure.title,
            "certainty": self.certainty.value,
            "lines": [line.to_json() for line in self.lines],
            "cause": self.cause,
            "next": self.remedy.for_stack(stack),
            "runbook": f"docs/{self.failure.page}.md",
        }


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What is wrong with an endpoint.

    Attributes:
        stack: name of its stack; empty where lines alone were judged.
        state: where it stands.
        sentence: that in words.
        findings: the classes that were found, the most causal first; :data:`UNKNOWN` alone where
            something is wrong and no class fits; empty where nothing is wrong.
        remedy: what to do next.
        looked_at: the sources that were read.
        unread: those that could not be.
        evidence: what it is drawn from.
    """

    stack: str
    state: State
    sentence: str
    findings: tuple[Finding, ...]
    remedy: Advice
    looked_at: tuple[str, ...]
    unread: tuple[UnreadSource, ...]
    evidence: Evidence = field(repr=False, compare=False, default=Evidence())

    @property
    def exit_code(self) -> int:
        """0 where nothing is wrong, 3 where it only has to be waited for, 4 without an endpoint;
        else that of the first class, by its kind."""
        if self.findings:
            return self.findings[0].failure.kind.exit_code
        waits = {State.WAITS: CapacityError, State.BOOTS: CapacityError}
        absent = {State.ABSENT: NotFoundError}
        kind = (waits | absent).get(self.state)
        return 0 if kind is None else kind.exit_code

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex diagnose --json`` prints."""
        first = (
            self.findings[0].to_json(self.stack) if self.findings else {"class": None, "lines": []}
        )
        return {
            "stack": self.stack or None,
            "state": self.state.value,
            "sentence": self.sentence,
            **first,
            "next": self.remedy.for_stack(self.stack),
            "others": [each.to_json(self.stack) for each in self.findings[1:]],
            "looked_at": list(self.looked_at),
            "unread": [each.to_json(self.stack) for each in self.unread],
            "exit_code": self.exit_code,
        }


def judge(stack: str, evidence: Evidence, advice: Advice | str = "") -> Diagnosis:
    """What ``evidence`` shows.

    Args:
        stack: name of the stack.
        evidence: what was read.
        advice: what `status` says to do, which holds where no class is found.
    """
    state, sentence = _state(evidence)
    found = () if state is State.SERVES else _ordered(_findings(evidence))
    if _mends_itself(evidence):
        # That it does not answer meanwhile is no finding; why it had to be started again is one.
        found = tuple(each for each in found if not each.failure.symptom)
    if not found and state in (State.FAILS, State.UNREAD):
        found = (_unknown(evidence),)
    if state in (State.WAITS, State.BOOTS) and found:
        state = State.FAILS
    remedy = found[0].remedy if found else Advice.of(advice)
    return Diagnosis(
        stack,
        state,
        sentence,
        found,
        remedy,
        evidence.looked_at,
        evidence.unread,
        evidence,
    )


def judge_lines(lines: Iterable[Line], source: str) -> Diagnosis:
    """What ``lines`` of a log show, of which nothing else is known."""
    evidence = Evidence(lines=tuple(lines), looked_at=(source,))
    found = _ordered(_of_lines(evidence))
    count = len(evidence.lines)
    sentence = f"{count:,} {'line' if count == 1 else 'lines'} of {source}"
    if not found:
        found = (_finding(UNKNOWN, Certainty.LIKELY, ()),)
    return Diagnosis(
        "", State.LINES, sentence, found, found[0].remedy, evidence.looked_at, (), evidence
    )


def _state(evidence: Evidence) -> tuple[State, str]:
    """Where the endpoint stands, and that in words."""
    seen, health = evidence.slice, evidence.health
    if seen is None:
        if evidence.refusal is not None:
            return State.UNREAD, "the slice could not be read"
        return State.ABSENT, "there is no slice: nothing runs, and nothing is billed"
    if seen.condition in (Condition.WAITING, Condition.PROVISIONING):
        return State.WAITS, f"{seen.state}: {seen.sentence}"
    if seen.condition is not Condition.ACTIVE:
        return State.FAILS, f"{seen.state}: {seen.sentence}"
    host = seen.host
    if host is None:
        return State.BOOTS, "the hosts run, and none has reported yet"
    if host.error:
        return State.FAILS, f"the boot failed in phase {host.phase or 'start'}"
    if not host.ready:
        return State.BOOTS, f"the host boots, in phase {host.phase or 'start'}"
    if seen.ready and (health is None or health.problem is None):
        return State.SERVES, _serving_sentence(evidence)
    serving = host.serving
    if serving is None or serving.phase is ServingPhase.SERVING:
        return State.FAILS, "the host says READY, and its server does not answer as it should"
    if serving.phase is ServingPhase.DRAINING and not found_in(_said_by_watch(serving)):
        return State.BOOTS, f"the host drains: {serving.reason.partition(chr(10))[0]}"
    if _mends_itself(evidence):
        why = serving.reason.partition("\n")[0]
        return State.BOOTS, f"the host mends itself, its server is being started again: {why}"
    return State.FAILS, f"the host was READY, and is {serving.phase.value}"


def _mends_itself(evidence: Evidence) -> bool:
    """Whether a server that was READY is being started again, as far as its host says so lately."""
    seen = evidence.slice
    host = seen.host if seen is not None and seen.condition is Condition.ACTIVE else None
    serving = host.serving if host is not None and host.ready else None
    if serving is None or serving.phase is not ServingPhase.DEGRADED:
        return False
    is_old = evidence.at is not None and serving.is_old(evidence.at.timestamp())
    return not is_old and says_started_again(serving.reason)


def _serving_sentence(evidence: Evidence) -> str:
    """That it serves, whether it was asked, how often it did not before, and what further requests
    of the endpoint do, such as a successor that does not come to serve."""
    health = evidence.health
    asked = health is not None and health.answers is True
    text = "it serves: it was asked, and answered" if asked else "it serves, as its host says"
    if evidence.slice is not None and evidence.slice.others:
        text += f"; further requests: {'; '.join(evidence.slice.others)}"
    serving = evidence.slice and evidence.slice.host and evidence.slice.host.serving
    if not serving or not serving.restarts:
        return text
    often = "once" if serving.restarts == 1 else f"{serving.restarts} times"
    return f"{text}; its server was started again {often}: {serving.restarted_why}"


def _findings(evidence: Evidence) -> Iterator[Finding]:
    yield from _of_slice(evidence)
    yield from _of_host(evidence)
    yield from _of_server(evidence)
    yield from _of_silence(evidence)
    yield from _of_refusals(evidence)
    yield from _of_checks(evidence)
    yield from _of_lines(evidence)


def _ordered(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each class once, with all that shows it, the most causal first."""
    merged: dict[str, Finding] = {}
    for each in findings:
        known = merged.setdefault(each.failure.slug, each)
        if known is not each:
            first, other = (each, known) if _rank(each) < _rank(known) else (known, each)
            lines = tuple(dict.fromkeys((*first.lines, *other.lines)))
            merged[each.failure.slug] = Finding(
                first.failure, first.certainty, lines, first.remedy, first.cause
            )
    return tuple(_shortened(each) for each in sorted(merged.values(), key=_rank))


def _rank(found: Finding) -> tuple[bool, bool, int]:
    order = [*CLASSES]
    slug = found.failure.slug
    place = order.index(slug) if slug in CLASSES else len(order)
    return found.failure.symptom, found.certainty is not Certainty.CERTAIN, place


def _shortened(found: Finding) -> Finding:
    """``found`` with a few of its lines, of those that say the same the first: the first ones, and
    the last."""
    kept = tuple({words_of(line)[:_SAME]: line for line in reversed(found.lines)}.values())[::-1]
    if len(kept) > _SHOWN_LINES:
        kept = (*kept[: _SHOWN_LINES - 1], kept[-1])
    lines = tuple(
        line if len(line.text) <= _LINE else Line(line.source, f"{line.text[:_LINE]}…")
        for line in kept
    )
    return Finding(found.failure, found.certainty, lines, found.remedy, found.cause)


def _finding(
    failure: FailureClass | str,
    certainty: Certainty,
    lines: Iterable[Line],
    remedy: Advice | None = None,
    cause: str = "",
) -> Finding:
    row = CLASSES[failure] if isinstance(failure, str) else failure
    return Finding(row, certainty, tuple(lines), remedy or row.remedy, cause or row.cause)


def _meant(
    meaning: Meaning, certainty: Certainty, lines: Iterable[Line], cause: str = ""
) -> Finding:
    failure = CLASSES[meaning.slug] if meaning.slug else UNKNOWN
    return _finding(failure, certainty, lines, meaning.remedy, cause)


def _of_slice(evidence: Evidence) -> Iterator[Finding]:
    """What Google says of the request, or of who asks."""
    seen = evidence.slice
    if seen is None:
        yield from _of_error(evidence.refusal)
        return
    line = Line(_CLOUD_TPU, ": ".join(filter(None, (seen.state, seen.error or seen.sentence))))
    if seen.condition is Condition.ENDED:
        yield _finding("end-of-run", Certainty.CERTAIN, [line])
    elif seen.condition in _LOST:
        yield _finding("slice-lost", Certainty.CERTAIN, [line])
    elif seen.condition is Condition.FAILED:
        cause = seen.cause or classify(0, seen.error)
        meaning = CAUSES[cause]
        if cause in (Cause.POLICY, Cause.PERMISSION):
            meaning = meaning_of_refusal(seen.error, meaning.slug)
        if meaning.slug == "quota" or cause is Cause.BILLING:
            said = remedy(cause, seen.error, project=evidence.limits.project)
            yield _meant(meaning, Certainty.CERTAIN, [line], said)
        else:
            yield _meant(meaning, Certainty.CERTAIN, [line])


def _of_error(error: TpuflexError | None) -> Iterator[Finding]:
    """Why nothing could be read at all."""
    if error is None:
        return
    kinds: tuple[tuple[type[TpuflexError], str], ...] = (
        (ServiceDisabledError, "api-not-enabled"),
        (QuotaError, "quota"),
        (AccessError, "permission"),
    )
    slug = next((slug for kind, slug in kinds if isinstance(error, kind)), "")
    if slug:
        line = Line(_CLOUD_TPU, error.brief)
        yield _finding(slug, Certainty.CERTAIN, [line], error.hint or None)


def _of_host(evidence: Evidence) -> Iterator[Finding]:
    """What the host says of its boot, now or at its end."""
    host = evidence.slice.host if evidence.slice is not None else None
    error, certainty = (host.error, Certainty.CERTAIN) if host is not None else ("", None)
    if not error:
        error, certainty = evidence.boot_error, Certainty.LIKELY
    if not error or certainty is None:
        return
    first, *rest = error.splitlines()
    line = Line(_REPORT, first)
    meaning = meaning_of_code(first)
    if meaning is None:
        yield _finding(UNKNOWN, certainty, [line])
        return
    # The error has the server's own last words, and may say more than its code.
    for told in found_in(Line(_REPORT, text) for text in (first, *rest)):
        if told.meaning.slug != meaning.slug:
            yield _meant(told.meaning, Certainty.LIKELY, told.lines)
    yield _meant(meaning, certainty, [line])


def _of_server(evidence: Evidence) -> Iterator[Finding]:
    """What the host's watch says of a server that was READY, and what came of asking it."""
    seen, health = evidence.slice, evidence.health
    host = seen.host if seen is not None and seen.condition is Condition.ACTIVE else None
    serving = host.serving if host is not None and host.ready else None
    if serving is not None and serving.phase is not ServingPhase.SERVING:
        said = _said_by_watch(serving)
        told = found_in(said)
        for each in told:
            yield _meant(each.meaning, Certainty.CERTAIN, each.lines)
        if serving.phase is not ServingPhase.DRAINING and not told:
            yield _finding("target-down", Certainty.CERTAIN, said[:1])
    elif serving is not None and evidence.at and serving.is_old(evidence.at.timestamp()):
        line = Line(_REPORT, "the host has said nothing for minutes: it, or its watch, is gone")
        yield _finding("target-down", Certainty.LIKELY, [line])
    if evidence.stalled:
        line = Line("metrics", evidence.stalled)
        yield _finding("frozen-engine", Certainty.CERTAIN, [line])
    if health is None or health.problem is None:
        return
    line = Line(_ENDPOINT, health.why or health.problem.message)
    if health.frozen:
        yield _finding("frozen-engine", Certainty.CERTAIN, [line])
    elif isinstance(health.problem, BootError):
        yield _finding("target-down", Certainty.CERTAIN, [line])
    else:
        yield _finding("secrets", Certainty.CERTAIN, [line], health.problem.hint)


def _said_by_watch(serving: Serving) -> tuple[Line, ...]:
    """What the watch says, as it stands in the host's log."""
    text = f"watch: {serving.phase.value}: {serving.reason}"
    return tuple(Line(_REPORT, each) for each in text.splitlines())


def _of_silence(evidence: Evidence) -> Iterator[Finding]:
    """A host that says nothing, or stays in a phase, for longer than it may."""
    seen, limits = evidence.slice, evidence.limits
    if seen is None or seen.condition is not Condition.ACTIVE or evidence.at is None:
        return
    since = seen.active_since
    if seen.host is None and since is not None and evidence.at - since >= limits.first_report:
        waited = format_roughly(evidence.at - since)
        line = Line(_REPORT, f"the host has reported nothing for {waited}")
        yield _finding("guest-attributes", Certainty.LIKELY, [line])
        if limits.secure_boot:
            yield _finding("secure-boot", Certainty.LIKELY, [line])
        yield _finding("boot-stuck", Certainty.LIKELY, [line])
    if seen.host is None or seen.host.ready or seen.host.error:
        return
    began = min(seen.host.timeline.values(), default=0.0)
    if began and evidence.at.timestamp() - began >= limits.ready.total_seconds():
        waited = format_roughly(timedelta(seconds=evidence.at.timestamp() - began))
        phase = seen.host.phase or "start"
        detail = f" ({seen.host.detail})" if seen.host.detail else ""
        line = Line(_REPORT, f"still in phase {phase}{detail} after {waited}")
        yield _finding("boot-stuck", Certainty.CERTAIN, [line])


def _of_refusals(evidence: Evidence) -> Iterator[Finding]:
    """What somebody deleted, and what Google refused to make."""
    if evidence.deleted:
        yield _finding("slice-lost", Certainty.LIKELY, evidence.deleted)
    for line in evidence.refused:
        meaning = meaning_of_refusal(line.text, "permission")
        yield _meant(meaning, Certainty.LIKELY, [line])


#: What a check of the doctor means that is not well, by what it is about.
_GROUPS = {
    Group.ACCOUNT: "permission",
    Group.APIS: "api-not-enabled",
    Group.PERMISSIONS: "permission",
    Group.POLICIES: "permission",
    Group.CAPACITY: "arguments",
    Group.SERVED: "weights",
}
_POLICIES = {
    "compute.requireShieldedVm": "secure-boot",
    "compute.disableGuestAttributesAccess": "guest-attributes",
}
_KINDS: tuple[tuple[type[TpuflexError], str], ...] = (
    (ServiceDisabledError, "api-not-enabled"),
    (QuotaError, "quota"),
    (WeightsError, "weights"),
)


def _of_checks(evidence: Evidence) -> Iterator[Finding]:
    """What the doctor finds in the way. A warning of what may be in it counts where no slice has
    come of an `up`."""
    for check in evidence.checks:
        failed = check.standing is Standing.FAILED
        if check.group not in _GROUPS or not (failed or evidence.slice is None):
            continue
        by_kind = next((slug for kind, slug in _KINDS if issubclass(check.kind, kind)), "")
        slug = _POLICIES.get(check.name) or by_kind or _GROUPS[check.group]
        if check.name == "image":
            slug = "image"
        text = f"{check.name}: {check.text}"
        slug = meaning_of_refusal(text, slug).slug if slug == "weights" else slug
        told = Line("doctor", " ".join(text.split()))
        # With a slice that waits or runs, it is what would fail the next time.
        sure = Certainty.CERTAIN if failed and evidence.slice is None else Certainty.LIKELY
        yield _finding(slug, sure, [told], Advice.of(check.remedy) if check.remedy else None)


def _of_lines(evidence: Evidence) -> Iterator[Finding]:
    """What logs say by their words."""
    for told in found_in(since_it_served(evidence.lines)):
        yield _meant(told.meaning, Certainty.LIKELY, told.lines)


def _unknown(evidence: Evidence) -> Finding:
    lines = [*evidence.lines[-_SHOWN_LINES:]]
    if evidence.refusal is not None:
        lines.insert(0, Line(_CLOUD_TPU, evidence.refusal.brief))
    hint = None if evidence.refusal is None else evidence.refusal.hint
    return _finding(UNKNOWN, Certainty.LIKELY, lines, hint or None)
