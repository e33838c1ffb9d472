"""What every figure has: cases, their results, and the calls at which a case strikes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability.evidence import Violation
from reliability.rig import StackRig

Json = dict[str, Any]

TPU = "tpu.projects.locations."
#: The processes of a command that a kill can strike.
ROLES = ("cli", "engine", "provider")
#: Before the request takes effect, after it took effect, after its response was sent.
STAGES = ("before-commit", "after-commit", "after-response")
#: The kind of problem that a violated invariant counts as.
_KINDS = {
    **{"I1": "orphan", "I5": "orphan", "I2": "duplicate"},
    **{"I9": "away", "I10": "cut", "R0": "rig"},
}
#: How often a case is tried if its fault does not strike.
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: the ``nth`` of its method."""

    method_id: str
    nth: int

    def __str__(self) -> str:
        return f"{self.method_id.removeprefix(TPU)}#{self.nth}"


@dataclass(frozen=True, slots=True)
class Case:
    """One case: a name that is unique in its figure, and facts that only its figure reads."""

    name: str
    facts: Json


@dataclass(slots=True)
class Result:
    """The result of one case.

    Attributes:
        struck: how many faults struck.
        must_strike: false for cases that deliberately inject nothing.
        problems: kind (``orphan``, ``duplicate``, ``manual``, ``rig``, or an invariant) and text.
    """

    name: str
    struck: int = 0
    must_strike: bool = True
    problems: list[tuple[str, str]] = field(default_factory=list)

    def found(self, violations: Sequence[Violation], when: str) -> None:
        """Record violations from the checker."""
        for violation in violations:
            kind = _KINDS.get(violation.invariant, violation.invariant)
            self.problems.append((kind, f"{when}: {violation}"))

    def wanted(self, good: bool, kind: str, text: str) -> None:
        """Record ``text`` as a problem unless ``good``."""
        if not good:
            self.problems.append((kind, text[-600:]))


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table.

    Attributes:
        key: what ``--figures`` takes.
        title: what it claims.
        rig: makes what its cases run on: in a directory, on a strict cloud or not.
        cases: lists all cases, given rig and seed; may run commands on the rig first.
        judge: runs one case.
        counted: kinds of problems that its row names even if there are none.
        workers: how many rigs may run at once.
    """

    key: str
    title: str
    rig: Callable[[Path, bool], AbstractContextManager[Any]]
    cases: Callable[[Any, int], list[Case]]
    judge: Callable[[Any, Case], Result]
    counted: tuple[str, ...]
    workers: int = 64


def judged(figure: Figure, rig: object, case: Case) -> Result:
    """One case's result; an exception counts against the case and does not end the run.

    A fault that missed (the process had ended a moment before, another thread made the call)
    says nothing about what the case should show: the case is run again.
    """
    for _ in range(_TRIES):
        try:
            result = figure.judge(rig, case)
        except Exception as error:
            text = str(error)
            kind = "traceback" if "Traceback (most recent" in text else "rig"
            return Result(case.name, problems=[(kind, f"{type(error).__name__}: {text[-800:]}")])
        if {kind for kind, _ in result.problems} != {"rig"}:
            break
    return result


def sample(cases: Sequence[Case], seed: int) -> list[Case]:
    """All cases in an order decided by ``seed``: any first part of it is a fair sample."""
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - reproducible, not secret
    return shuffled


def numbered(method_ids: Sequence[str]) -> list[Call]:
    """The calls of a clean run, each with its number among those of its method."""
    seen: Counter[str] = Counter()
    calls = []
    for method_id in method_ids:
        seen[method_id] += 1
        calls.append(Call(method_id, seen[method_id]))
    return calls


def callers(
    rig: StackRig, *words: str, roles: Sequence[str] = ROLES, without: Collection[str] = ()
) -> list[tuple[Call, list[str]]]:
    """The calls that a command makes when nothing goes wrong, each with those of ``roles`` whose
    processes are alive then; ``without`` methods whose last word is one of these."""
    first = rig.control.seq()
    # Stops processes and continues them at once: they do not notice, but the history has it.
    effect = {"kind": "kill", "roles": list(roles), "signal": "STOP", "resume_after_s": 0}
    look = {"nth": 1, "every": 1, "times": 0, "stage": "before-commit", "effect": effect}
    done = rig.run(*words, rules=[look])
    assert done.exit_code == 0, rig.said[-1].stderr
    strikes = rig.control.strikes(first)
    found = []
    for call, strike in zip(numbered([s["method_id"] for s in strikes]), strikes, strict=True):
        living = {str(process["role"]) for process in strike["processes"]}
        if call.method_id.rpartition(".")[2] not in without:
            found.append((call, [role for role in roles if role in living]))
    return found


def kill(call: Call, stage: str, roles: Sequence[str], **more: object) -> Json:
    """The rule that kills every process of these roles at a stage of a call."""
    return {
        "where": {"method_id": call.method_id},
        "nth": call.nth,
        "stage": stage,
        "effect": {"kind": "kill", "roles": list(roles), **more},
    }


def kill_case(said: str, role: str, stage: str, call: Call, facts: Json) -> Case:
    """The case of one kill at one call of what is ``said``."""
    at = {"role": role, "stage": stage, "method_id": call.method_id, "nth": call.nth}
    who = f" {role}" if role else ""
    return Case(f"{said}: kill -9{who} {stage} {call}", {**facts, **at})


def kill_of(facts: Json) -> Json:
    """The rule of a :func:`kill_case`."""
    return kill(Call(facts["method_id"], facts["nth"]), facts["stage"], [facts["role"]])
