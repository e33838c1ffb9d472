"""The parts of a figure: cases, their results, and the outcome of all of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from reliability.invariants import Violation
from reliability.rig import SliceRig
from reliability.servicer_rig import ServicerRig

Json = dict[str, Any]
#: The rig of a figure's cases: one of these names, or a function that makes one in a directory.
RigName = Literal["slice", "servicer", "stack", "edges", "rows", "provider", "naive"]
MakeRig = Callable[[Path], AbstractContextManager[Any]]

TPU = "tpu.projects.locations."
#: The kind of problem that a violated invariant counts as.
KINDS = {
    **{"I1": "orphan", "I5": "orphan", "I2": "duplicate"},
    **{"I9": "away", "I10": "cut", "R0": "rig"},
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command: the ``nth`` of its method."""

    method_id: str
    nth: int

    def __str__(self) -> str:
        return f"{self.method_id.removeprefix(TPU)}#{self.nth}"


@dataclass(frozen=True, slots=True)
class Case:
    """One case; ``facts`` are plain values that only its figure interprets.

    Attributes:
        name: unique in its figure, for people.
    """

    name: str
    facts: Json


@dataclass(slots=True)
class Result:
    """The result of one case.

    Attributes:
        name: the case's.
        struck: how many faults struck.
        must_strike: false for cases that deliberately inject nothing.
        problems: (kind, text): ``orphan``, ``duplicate``, ``manual``, ``traceback``, ``untyped``,
            ``not converged``, ``slow``, ``rig``, or an invariant.
        values: measured values by name.
    """

    name: str
    struck: int = 0
    must_strike: bool = True
    problems: list[tuple[str, str]] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)

    def found(self, violations: Sequence[Violation], when: str) -> None:
        """Record violations from the checker."""
        for violation in violations:
            kind = KINDS.get(violation.invariant, violation.invariant)
            self.problems.append((kind, f"{when}: {violation}"))

    def wanted(self, good: bool, kind: str, text: str) -> None:
        """Record ``text`` as a problem unless ``good``."""
        if not good:
            self.problems.append((kind, text[-600:]))


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the scoreboard.

    Attributes:
        key: what ``--figures`` takes.
        title: what it claims.
        rig: what its cases run on.
        cases: lists all cases, given rig and seed; may make a clean run on the rig first.
        judge: runs one case.
        share: its share of the time budget, relative to the other figures' shares.
        spare: seconds of the budget to reserve for one case at the end.
        counted: kinds of problems that its report names even if there are none.
        yardstick: whether it measures something other than tpuflex, for comparison: it has no aim.
        strict: whether its cloud is as strict as Google.
    """

    key: str
    title: str
    rig: RigName | MakeRig
    cases: Callable[[Any, int], list[Case]]
    judge: Callable[[Any, Case], Result]
    share: float
    spare: float = 0.0
    counted: tuple[str, ...] = ()
    yardstick: bool = False
    strict: bool = False


@dataclass(slots=True)
class Outcome:
    """The outcome of a figure.

    Attributes:
        key, title: the figure's.
        possible: how many cases there are.
        results: those of the cases that were run.
        seconds: how long it took.
        reproductions: files that repeat failed cases.
        counted: the figure's.
        cut_short: whether Ctrl-C ended it.
        yardstick: the figure's.
    """

    key: str
    title: str
    possible: int
    results: list[Result]
    seconds: float
    reproductions: list[Path] = field(default_factory=list)
    counted: tuple[str, ...] = ()
    cut_short: bool = False
    yardstick: bool = False

    @property
    def good(self) -> int:
        """The number of cases without a problem."""
        return sum(not result.problems for result in self.results)

    @property
    def struck(self) -> int:
        """The number of faults that struck in all cases together."""
        return sum(result.struck for result in self.results)

    @property
    def kinds(self) -> Counter[str]:
        """How many cases have a problem of each kind."""
        return Counter(
            kind for result in self.results for kind in {kind for kind, _ in result.problems}
        )

    @property
    def idle(self) -> bool:
        """Whether nothing was injected although it should have been, or nothing was run."""
        meant = [result for result in self.results if result.must_strike]
        return not self.results or (bool(meant) and not any(r.struck for r in meant))

    @property
    def passed(self) -> bool:
        """Whether every case that was run is good, and something was injected.

        A yardstick need not be good, but the rig must have worked in every case.
        """
        well = not self.kinds["rig"] if self.yardstick else self.good == len(self.results)
        return well and not self.idle


def sample(cases: Sequence[Case], seed: int) -> list[Case]:
    """All cases in an order decided by ``seed``: any first part of it is a fair sample."""
    shuffled = list(cases)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - reproducible, not secret
    return shuffled


def numbered(method_ids: Sequence[str]) -> list[Call]:
    """The TPU API calls of a clean run, each with its number among those of its method."""
    seen: Counter[str] = Counter()
    calls = []
    for method_id in method_ids:
        if method_id.startswith(TPU):
            seen[method_id] += 1
            calls.append(Call(method_id, seen[method_id]))
    return calls


def slice_calls(rig: SliceRig, command: str) -> list[Call]:
    """The calls that ``command`` makes when nothing goes wrong."""
    done = rig.run(command)
    assert done.exit_code == 0, rig.said[-1].stderr
    return numbered([call["method_id"] for call in rig.control.history(done.first_seq)])


def servicer_calls(rig: ServicerRig, command: str) -> list[Call]:
    """The calls that ``command`` makes when nothing goes wrong."""
    done = rig.run(command)
    assert done.exit_code == 0, rig.engine.said
    history = rig.direct.cloud.history.entries()
    return numbered([str(c["method_id"]) for c in history if int(str(c["seq"])) > done.first_seq])
