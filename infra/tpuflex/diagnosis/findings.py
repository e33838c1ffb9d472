"""From evidence to classes of failure: pure rules.

Each piece of evidence is read by what knows it: the slice by its condition and the cause that
Google gives, the host by the code of its error, what it says from READY on, the server's health,
the doctor's checks, and lines of logs by their words. Of several classes the most causal is first:
a cause before a symptom, a code before words, and then the order of
:mod:`tpuflex.diagnosis.classes`; what is of no class is last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from itertools import chain
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
    since_it_served,
    words_of,
)
from tpuflex.doctor.check import Group, Standing
from tpuflex.duration import format_roughly
from tpuflex.errors import (
    AccessError,
    BootError,
    QuotaError,
    ServiceDisabledError,
    TpuflexError,
    WeightsError,
)
from tpuflex.host.serving import ServingPhase
from tpuflex.queued_resource.causes import Cause, classify, no_quota, remedy
from tpuflex.queued_resource.outcomes import Condition

if TYPE_CHECKING:
    from tpuflex.diagnosis.evidence import Evidence
    from tpuflex.host.serving import Serving

#: Lines that are shown of a class.
_SHOWN_LINES = 3
#: Characters of a line that are shown, and of its words those by which two lines are the same.
_LINE, _SAME = 300, 60
_LOST = (Condition.NODE_MISSING, Condition.ORPHANED, Condition.DELETING)
_CLOUD_TPU, _REPORT, _ENDPOINT = "Cloud TPU", "host report", "endpoint"
#: Errors that are of one class.
_KINDS: tuple[tuple[type[TpuflexError], str], ...] = (
    (ServiceDisabledError, "api-not-enabled"),
    (QuotaError, "quota"),
    (WeightsError, "weights"),
)
#: The class of a check of the doctor, where its error tells none, by what it is about.
_GROUPS = {
    Group.ACCOUNT: "permission",
    Group.APIS: "api-not-enabled",
    Group.PERMISSIONS: "permission",
    Group.POLICIES: "permission",
    Group.CAPACITY: "arguments",
    Group.SERVED: "weights",
}
#: The class of a check, by its name, where its group has several.
_CHECKS = {
    "compute.requireShieldedVm": "secure-boot",
    "compute.disableGuestAttributesAccess": "guest-attributes",
    "image": "image",
}


class Certainty(StrEnum):
    """How sure a class is."""

    CERTAIN = "certain"  #: a code says so, of Google or of the host
    LIKELY = "likely"  #: words of a log say so, or it is of an earlier boot


@dataclass(frozen=True, slots=True)
class Finding:
    """A class that the evidence shows.

    Attributes:
        failure: the class.
        certainty: how sure that is.
        lines: what shows it.
        remedy: the next command.
    """

    failure: FailureClass
    certainty: Certainty
    lines: tuple[Line, ...]
    remedy: Advice

    @property
    def is_known(self) -> bool:
        """Whether it is of a class that has a runbook."""
        return self.failure is not UNKNOWN

    def to_json(self, stack: str) -> dict[str, object]:
        """The class in the document of the :class:`Diagnosis` of ``stack``."""
        return {
            "class": self.failure.slug,
            "title": self.failure.title,
            "certainty": self.certainty.value,
            "lines": [line.to_json() for line in self.lines],
            "cause": self.failure.cause,
            "next": self.remedy.for_stack(stack),
            "runbook": f"docs/{self.failure.page}.md" if self.is_known else None,
        }


def findings(evidence: Evidence) -> tuple[Finding, ...]:
    """What ``evidence`` shows, each class once, the most causal first."""
    readers = (
        _of_slice,
        _of_host,
        _of_server,
        _of_silence,
        _of_refusals,
        _of_checks,
        _of_lines,
    )
    found = _ordered(chain.from_iterable(read(evidence) for read in readers))
    if evidence.is_recovering:
        # That it does not answer meanwhile is no finding; why it had to be started again is one.
        return tuple(each for each in found if not each.failure.symptom)
    return found


def unknown(evidence: Evidence) -> Finding:
    """That no class fits, with the last lines, and why the slice could not be read."""
    lines = evidence.lines[-_SHOWN_LINES:]
    refusal = evidence.refusal
    if refusal is None:
        return _finding(UNKNOWN, Certainty.LIKELY, _shown(lines))
    shown = _shown((Line(_CLOUD_TPU, refusal.brief), *lines))
    return _finding(UNKNOWN, Certainty.LIKELY, shown, refusal.hint or None)


def _ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each class once, with the lines of all its findings, the most causal first."""
    by_class: dict[str, list[Finding]] = {}
    for each in sorted(found, key=_rank):
        by_class.setdefault(each.failure.slug, []).append(each)
    return tuple(
        replace(alike[0], lines=_shown(line for each in alike for line in each.lines))
        for alike in by_class.values()
    )


def _rank(found: Finding) -> tuple[bool, bool, int]:
    if not found.is_known:
        return True, True, len(CLASSES)
    place = [*CLASSES].index(found.failure.slug)
    return found.failure.symptom, found.certainty is not Certainty.CERTAIN, place


def _shown(lines: Iterable[Line]) -> tuple[Line, ...]:
    """The first ones and the last of ``lines``, shortened; of those that say the same, the first
    alone."""
    by_words: dict[str, Line] = {}
    for line in lines:
        by_words.setdefault(words_of(line.text)[:_SAME], line)
    kept = [*by_words.values()]
    if len(kept) > _SHOWN_LINES:
        kept = [*kept[: _SHOWN_LINES - 1], kept[-1]]
    return tuple(
        line if len(line.text) <= _LINE else Line(line.source, f"{line.text[:_LINE]}…")
        for line in kept
    )


def _finding(
    failure: FailureClass | str,
    certainty: Certainty,
    lines: Iterable[Line],
    remedy: Advice | None = None,
) -> Finding:
    row = CLASSES[failure] if isinstance(failure, str) else failure
    return Finding(row, certainty, tuple(lines), remedy or row.remedy)


def _meant(meaning: Meaning, certainty: Certainty, lines: Iterable[Line]) -> Finding:
    return _finding(meaning.slug or UNKNOWN, certainty, lines, meaning.remedy)


def _of_slice(evidence: Evidence) -> Iterator[Finding]:
    """What Google says of the request, or of who asks."""
    seen = evidence.slice
    if seen is None:
        yield from _of_error(evidence.refusal)
        return
    line = Line(_CLOUD_TPU, ": ".join(filter(None, (seen.state, seen.error or seen.sentence))))
    if seen.condition is Condition.ACTIVE:
        for each in found_in([Line(_REPORT, seen.unread)]):
            yield _meant(each.meaning, Certainty.CERTAIN, each.lines)
    elif seen.condition is Condition.ENDED:
        yield _finding("end-of-run", Certainty.CERTAIN, [line])
    elif seen.condition in _LOST:
        yield _finding("slice-lost", Certainty.CERTAIN, [line])
    elif seen.condition is Condition.FAILED:
        cause = seen.cause or classify(0, seen.error)
        meaning = CAUSES[cause]
        if cause in (Cause.POLICY, Cause.PERMISSION):
            meaning = meaning_of_refusal(seen.error, meaning.slug)
        if cause is Cause.BILLING or no_quota(seen.error):
            said = Advice.of(remedy(cause, seen.error, project=evidence.limits.project))
            meaning = replace(meaning, remedy=said)
        yield _meant(meaning, Certainty.CERTAIN, [line])


def _of_error(error: TpuflexError | None) -> Iterator[Finding]:
    """Why nothing could be read at all."""
    if error is None:
        return
    slug = _of_kind(type(error)) or ("permission" if isinstance(error, AccessError) else "")
    if slug:
        line = Line(_CLOUD_TPU, error.brief)
        yield _finding(slug, Certainty.CERTAIN, [line], error.hint or None)


def _of_kind(kind: type[TpuflexError]) -> str:
    """The class that an error of ``kind`` is of; empty where the kind does not tell."""
    return next((slug for each, slug in _KINDS if issubclass(kind, each)), "")


def _of_host(evidence: Evidence) -> Iterator[Finding]:
    """What the host says of its boot, now or at its end."""
    host = evidence.slice.host if evidence.slice is not None else None
    error, certainty = evidence.boot_error, Certainty.LIKELY
    if host is not None and host.error:
        error, certainty = host.error, Certainty.CERTAIN
    if not error:
        return
    first, *rest = error.splitlines()
    line = Line(_REPORT, first)
    meaning = meaning_of_code(first)
    if meaning is None:
        yield _finding(UNKNOWN, certainty, [line])
        return
    # The error has the server's own last words, and may say more than its code.
    for each in found_in(Line(_REPORT, text) for text in (first, *rest)):
        if each.meaning.slug != meaning.slug:
            yield _meant(each.meaning, Certainty.LIKELY, each.lines)
    yield _meant(meaning, certainty, [line])


def _of_server(evidence: Evidence) -> Iterator[Finding]:
    """What the host's watch says of a server that was READY, and what came of asking it."""
    serving, health = evidence.serving, evidence.health
    if serving is not None and serving.phase is not ServingPhase.SERVING:
        said = said_by_watch(serving)
        found = found_in(said)
        for each in found:
            yield _meant(each.meaning, Certainty.CERTAIN, each.lines)
        if serving.phase is not ServingPhase.DRAINING and not found:
            yield _finding("target-down", Certainty.CERTAIN, said[:1])
    elif evidence.is_silent:
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


def said_by_watch(serving: Serving) -> tuple[Line, ...]:
    """What the host's watch says, as lines of the host's log have it."""
    text = f"watch: {serving.phase.value}: {serving.reason}"
    return tuple(Line(_REPORT, each) for each in text.splitlines())


def _of_silence(evidence: Evidence) -> Iterator[Finding]:
    """A host that says nothing, or has not served, for longer than it may take."""
    seen, limits = evidence.slice, evidence.limits
    if seen is None or seen.condition is not Condition.ACTIVE or evidence.at is None:
        return
    since = None if seen.unread else seen.active_since
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


def _of_checks(evidence: Evidence) -> Iterator[Finding]:
    """What the doctor finds in the way of an `up`. A warning counts only without a slice: then an
    `up` may have been refused for it."""
    for check in evidence.checks:
        failed = check.standing is Standing.FAILED
        if check.group not in _GROUPS or not (failed or evidence.slice is None):
            continue
        slug = _CHECKS.get(check.name) or _of_kind(check.kind) or _GROUPS[check.group]
        text = f"{check.name}: {check.text}"
        if slug == "weights":
            slug = meaning_of_refusal(text, slug).slug
        line = Line("doctor", " ".join(text.split()))
        # Beside a slice, it is what would fail the next time.
        sure = Certainty.CERTAIN if failed and evidence.slice is None else Certainty.LIKELY
        yield _finding(slug, sure, [line], Advice.of(check.remedy) if check.remedy else None)


def _of_lines(evidence: Evidence) -> Iterator[Finding]:
    """What logs say by their words."""
    for each in found_in(since_it_served(evidence.lines)):
        yield _meant(each.meaning, Certainty.LIKELY, each.lines)
