"""A ramp: prompts of one length, more and more requests in flight, and gates that figures keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tpuflex.errors import GateError, ImplausibleError, UsageError
from tpuflex.measure.bench import Benchmark, Enough, users_text
from tpuflex.measure.gates import Gate, GateVerdict
from tpuflex.measure.grid import (
    OUTPUT,
    REQUESTS_PER_USER,
    SHORTEST_CONTEXT,
    Grid,
    parse_counts,
)
from tpuflex.measure.run import Load, Point
from tpuflex.stack.progress import Report, silent

#: Steps of a ramp, where none are named.
CONCURRENCY = tuple(2**power for power in range(9))
#: Tokens of its prompts, where they are not named.
CONTEXT = 1024


class Measure(Protocol):
    """Measures the points of a run, until ``enough`` says of one that no more are wanted."""

    def __call__(self, *, enough: Enough) -> Benchmark:
        """Measure them."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What has become of a gate.

    Attributes:
        gate: the gate.
        verdict: ``fails`` if it does at one of its steps, ``undecided`` if one of them decides
            nothing, else ``holds``.
        point: the first step that fails or decides nothing; of a gate that holds, the step that is
            nearest to its limit.
    """

    gate: Gate
    verdict: GateVerdict
    point: Point | None = None

    @property
    def text(self) -> str:
        """The decision in a sentence without a full stop."""
        point = self.point
        if point is None:
            which = "one of its steps" if self.gate.at is None else "its step"
            return f"{self.verdict}: {which} was not reached"
        users = users_text(point.load)
        value = self.gate.value(point)
        if value is not None:
            return f"{self.verdict}: {self.gate.shown(value)} with {users}"
        if point.verdict == "result":
            why = "not credible" if point.doubtful else "the figure is not known"
        else:
            why = point.verdict.replace("_", " ")
        return f"{self.verdict}: {users}: {why}"

    def to_json(self) -> dict[str, object]:
        """The decision in a JSON document."""
        point = self.point
        return {
            "gate": self.gate.text,
            "verdict": self.verdict,
            "concurrency": None if point is None else point.load.concurrency,
            "value": None if point is None else self.gate.value(point),
        }


@dataclass(frozen=True, slots=True)
class Ramp:
    """A run of one prompt length, with its gates.

    Attributes:
        benchmark: the run and its points.
        gates: what its figures have to keep.
    """

    benchmark: Benchmark
    gates: tuple[Gate, ...]

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """What has become of each gate."""
        found = self.benchmark
        return tuple(decided(gate, found.run.loads, found.points) for gate in self.gates)

    @property
    def peak(self) -> Point | None:
        """The step with the most tokens of answers a second; None without a result."""
        return max(self._results(), key=_output, default=None)

    @property
    def highest(self) -> Point | None:
        """The highest step that would keep all gates, if each of them were of every step; None if
        there is none."""
        kept = (
            point
            for point in self._results()
            if all(gate.verdict(point) == "holds" for gate in self.gates)
        )
        return max(kept, key=lambda point: point.load.concurrency, default=None)

    def _results(self) -> Iterator[Point]:
        return (
            point
            for point in self.benchmark.points
            if point.verdict == "result" and not point.doubtful
        )

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex bench ramp --json``."""
        peak, highest = self.peak, self.highest
        return {
            **self.benchmark.to_json(),
            "gates": [decision.to_json() for decision in self.decisions],
            "peak_concurrency": None if peak is None else peak.load.concurrency,
            "peak_output_per_second": None if peak is None else _output(peak),
            "highest_concurrency": None if highest is None else highest.load.concurrency,
        }

    def require_kept(self) -> None:
        """Raise unless every gate holds; without gates, unless every step is a result.

        Raises:
            GateError: a gate fails.
            ImplausibleError: a gate is undecided; without gates, a step is not a result.
        """
        decisions = self.decisions
        failing = [each for each in decisions if each.verdict == "fails"]
        if failing:
            which = "; ".join(f"{each.gate.text} {each.text}" for each in failing)
            raise GateError(f"{len(failing)} of {len(decisions)} gates failed: {which}")
        undecided = [each for each in decisions if each.verdict == "undecided"]
        if undecided:
            which = "; ".join(f"{each.gate.text} {each.text}" for each in undecided)
            raise ImplausibleError(
                f"{len(undecided)} of {len(decisions)} gates are undecided: {which}",
                hint="A step that is not a result passes no gate and fails none: measure it again.",
            )
        if not decisions:
            self.benchmark.require_results()


def ramp_grid(
    concurrency: str | None, context: int | None, output: int | None, requests_per_user: int | None
) -> Grid:
    """The points that options describe, rising in concurrency; None is an option that was not
    given.

    Args:
        concurrency: such as ``1,8,64``.
        context: tokens of a prompt.
        output, requests_per_user: as of :class:`~tpuflex.measure.grid.Grid`.

    Raises:
        UsageError: one of them cannot be read, or is too small.
    """
    users = CONCURRENCY if concurrency is None else parse_counts(concurrency, "--concurrency")
    tokens = CONTEXT if context is None else context
    if tokens < SHORTEST_CONTEXT:
        raise UsageError(
            f"A prompt has {SHORTEST_CONTEXT} tokens or more: some are the tokenizer's own.",
            option="--context",
        )
    return Grid(
        points=tuple((each, tokens) for each in sorted(set(users))),
        output=output or OUTPUT,
        requests_per_user=requests_per_user or REQUESTS_PER_USER,
    )


def ramp(
    measure: Measure, gates: Sequence[Gate], report: Report = silent, *, to_end: bool = False
) -> Ramp:
    """Measure step by step until a gate fails.

    Args:
        measure: :func:`~tpuflex.measure.bench.bench` or
            :func:`~tpuflex.measure.bench.bench_here` with all their arguments but ``enough``; the
            points of the order rise in concurrency.
        gates: what the figures have to keep.
        report: receives which gate fails.
        to_end: whether all steps are measured all the same.

    Raises:
        TpuflexError: as ``measure``.
    """

    def enough(point: Point) -> bool:
        failing = [gate for gate in gates if gate.decides(point) and gate.verdict(point) == "fails"]
        for gate in failing:
            report(f"{gate.text} {Decision(gate, 'fails', point).text}")
        return bool(failing) and not to_end

    return Ramp(measure(enough=enough), tuple(gates))


def decided(gate: Gate, loads: Sequence[Load], points: Sequence[Point]) -> Decision:
    """What has become of ``gate``: it holds if all its steps were measured, and keep it.

    Args:
        gate: the gate.
        loads: the steps of the ramp.
        points: those that were reached.
    """
    concerned = [point for point in points if gate.decides(point)]
    for verdict in ("fails", "undecided"):
        for point in concerned:
            if gate.verdict(point) == verdict:
                return Decision(gate, verdict, point)
    steps = [load for load in loads if gate.at in (None, load.concurrency)]
    if len(concerned) < len(steps):
        return Decision(gate, "undecided")
    worst = max if gate.is_upper else min
    return Decision(gate, "holds", worst(concerned, key=lambda point: gate.value(point) or 0.0))


def _output(point: Point) -> float:
    return 0.0 if point.measured is None else point.measured.output_per_second
