"""From findings to a diagnosis: where the endpoint stands, what is wrong, what comes next. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from tpuflex.advice import Advice
from tpuflex.diagnosis.evidence import Evidence
from tpuflex.diagnosis.findings import (
    Finding,
    findings,
    said_by_watch,
    unknown,
)
from tpuflex.diagnosis.signs import Line, found_in
from tpuflex.errors import CapacityError, NotFoundError
from tpuflex.host.serving import ServingPhase
from tpuflex.queued_resource.outcomes import Condition

#: The part of a document that says what is wrong, where nothing is.
_NOTHING_WRONG: dict[str, object] = {
    **dict.fromkeys(("class", "title", "certainty", "cause", "runbook")),
    "lines": [],
}
#: What to do about lines that are of no class.
_UNKNOWN_LINES = Advice(
    "`tpuflex docs runbooks` lists the failures that are known; `--explain URL` has a model draft a"
    " runbook from the lines"
)


class State(StrEnum):
    """Where the endpoint stands."""

    SERVES = "serves"
    WAITS = "waits"  #: in the queue, or its hosts are being made
    BOOTS = "boots"
    ABSENT = "absent"
    FAILS = "fails"
    UNREAD = "unread"  #: the slice, or what its host reports, could not be read
    LINES = "lines"  #: only lines were given


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
        evidence: what it is drawn from.
    """

    stack: str
    state: State
    sentence: str
    findings: tuple[Finding, ...]
    remedy: Advice
    evidence: Evidence = field(repr=False, compare=False)

    @property
    def exit_code(self) -> int:
        """0 where nothing is wrong, 3 where it only has to be waited for, 4 without an endpoint;
        else that of the first class, by its kind."""
        if self.findings:
            return self.findings[0].failure.kind.exit_code
        if self.state in (State.WAITS, State.BOOTS):
            return CapacityError.exit_code
        return NotFoundError.exit_code if self.state is State.ABSENT else 0

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex diagnose --json`` prints."""
        first, *others = [each.to_json(self.stack) for each in self.findings] or [_NOTHING_WRONG]
        return {
            "stack": self.stack or None,
            "state": self.state.value,
            "sentence": self.sentence,
            **first,
            "next": self.remedy.for_stack(self.stack),
            "others": others,
            "looked_at": list(self.evidence.looked_at),
            "unread": [each.to_json(self.stack) for each in self.evidence.unread],
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
    found = () if state is State.SERVES else findings(evidence)
    if not found and state in (State.FAILS, State.UNREAD):
        found = (unknown(evidence),)
    if state in (State.WAITS, State.BOOTS) and found:
        state = State.FAILS
    remedy = found[0].remedy if found else Advice.of(advice)
    return Diagnosis(stack, state, sentence, found, remedy, evidence)


def judge_lines(lines: Iterable[Line], source: str) -> Diagnosis:
    """What ``lines`` of a log show, of which nothing else is known."""
    evidence = Evidence(lines=tuple(lines), looked_at=(source,))
    found = findings(evidence) or (replace(unknown(Evidence()), remedy=_UNKNOWN_LINES),)
    count = len(evidence.lines)
    sentence = f"judged by {count:,} {'line' if count == 1 else 'lines'} of {source} alone"
    return Diagnosis("", State.LINES, sentence, found, found[0].remedy, evidence)


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
    if seen.unread:
        return State.UNREAD, "the hosts run, and what they report could not be read"
    if host is None:
        return State.BOOTS, "the hosts run, and none has reported yet"
    if host.error:
        return State.FAILS, f"the boot failed in phase {host.phase or 'start'}"
    if not host.ready:
        return State.BOOTS, f"the host boots, in phase {host.phase or 'start'}"
    if seen.ready and (health is None or health.problem is None):
        return State.SERVES, _serving_sentence(evidence)
    serving = evidence.serving
    if serving is None or serving.phase is ServingPhase.SERVING:
        return State.FAILS, "the host says READY, and its server does not answer as it should"
    first_line = serving.reason.partition("\n")[0]
    if serving.phase is ServingPhase.DRAINING and not found_in(said_by_watch(serving)):
        return State.BOOTS, f"the host drains: {first_line}"
    if evidence.is_recovering:
        return (
            State.BOOTS,
            f"the host mends itself, its server is being started again: {first_line}",
        )
    return State.FAILS, f"the host was READY, and is {serving.phase.value}"


def _serving_sentence(evidence: Evidence) -> str:
    """That it serves, whether it was asked, how often its server was started again, and what
    further requests of the endpoint do, such as a successor that does not come to serve."""
    health = evidence.health
    asked = health is not None and health.answers is True
    text = "it serves: it was asked, and answered" if asked else "it serves, as its host says"
    if evidence.slice is not None and evidence.slice.others:
        text += f"; further requests: {'; '.join(evidence.slice.others)}"
    serving = evidence.serving
    if serving is None or not serving.restarts:
        return text
    often = "once" if serving.restarts == 1 else f"{serving.restarts} times"
    return f"{text}; its server was started again {often}: {serving.restarted_why}"
