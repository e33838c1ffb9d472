"""Gates of a ramp: limits that a figure has to keep, such as ``ttft_p95<1.5s@128``."""

from __future__ import annotations

import difflib
import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from tpuflex.errors import UsageError
from tpuflex.measure.run import Measured, Point, Quantiles

#: ``undecided``: the step is not a result, was not feasible, is doubtful, or lacks the figure.
GateVerdict = Literal["holds", "fails", "undecided"]

_OPTION = "--gate"
#: What the parts of a gate look like; each is checked after that.
_GATE = re.compile(r"([^<>=@]*)(<=|>=|<|>)([^<>=@]*)(?:@([^<>=@]*))?")
_LIMIT = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-zA-Z/]*)")
_USERS = re.compile(r"[1-9][0-9]{0,6}")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Latencies, by their names in `vllm bench serve --percentile-metrics`, e2el without its l.
_LATENCIES: dict[str, Callable[[Measured], Quantiles | None]] = {
    "ttft": lambda measured: measured.ttft,
    "tpot": lambda measured: measured.tpot,
    "itl": lambda measured: measured.inter_token,
    "e2e": lambda measured: measured.latency,
}
_STATISTICS = tuple(Quantiles.model_fields)
_RATES: dict[str, Callable[[Point, Measured], float | None]] = {
    "output_tokens_per_s": lambda _, measured: measured.output_per_second,
    "prompt_tokens_per_s": lambda _, measured: measured.prompt_per_second,
    "requests_per_s": lambda _, measured: measured.requests_per_second,
    "usd_per_million": lambda point, _: (
        None if point.usd_per_million is None else float(point.usd_per_million)
    ),
}
#: What a gate can be about.
METRICS = (*(f"{name}_{each}" for name in _LATENCIES for each in _STATISTICS), *_RATES)
_SECONDS = {"s": 1.0, "ms": 0.001}


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit for one figure.

    Attributes:
        metric: the figure, one of :data:`METRICS`.
        comparison: ``<``, ``<=``, ``>`` or ``>=``.
        limit: what it is compared with; seconds of a latency.
        at: the concurrency at which it is decided; None: at every step.
        text: the gate as it was written, without spaces.
    """

    metric: str
    comparison: str
    limit: float
    at: int | None
    text: str

    @property
    def is_upper(self) -> bool:
        """Whether the figure has to stay below the limit."""
        return self.comparison.startswith("<")

    def value(self, point: Point) -> float | None:
        """The figure at ``point``; None where that is not a result, is doubtful, or lacks it."""
        measured = point.measured
        if point.verdict != "result" or point.doubtful or measured is None:
            return None
        if self.metric in _RATES:
            return _RATES[self.metric](point, measured)
        name, _, statistic = self.metric.rpartition("_")
        found = _LATENCIES[name](measured)
        return None if found is None else float(getattr(found, statistic))

    def verdict(self, point: Point) -> GateVerdict:
        """Whether the figure keeps the limit at ``point``, wherever the gate is decided."""
        value = self.value(point)
        if value is None:
            return "undecided"
        return "holds" if _COMPARE[self.comparison](value, self.limit) else "fails"

    def decides(self, point: Point) -> bool:
        """Whether the gate is decided at ``point``."""
        return self.at in (None, point.load.concurrency)

    def shown(self, value: float) -> str:
        """``value`` with the unit of the metric."""
        if self.metric in _RATES:
            return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
        return f"{value:.3g} s" if value >= 1 else f"{value * 1000:.3g} ms"


def parse_gates(texts: Iterable[str], concurrency: Iterable[int]) -> tuple[Gate, ...]:
    """The gates that ``texts`` stand for.

    Args:
        texts: METRIC, a comparison, a limit with its unit, and ``@CONCURRENCY`` or nothing.
        concurrency: the steps of the ramp.

    Raises:
        UsageError: one of them is no gate, or of a step that the ramp has not.
    """
    steps = tuple(concurrency)
    gates = tuple(map(parse_gate, texts))
    for gate in gates:
        if gate.at is not None and gate.at not in steps:
            known = ", ".join(f"{step:,}" for step in steps)
            raise _wrong(gate.text, f"the ramp has no step of {gate.at:,}, only {known}")
    return gates


def parse_gate(text: str) -> Gate:
    """The gate that ``text`` stands for.

    Raises:
        UsageError: it is none.
    """
    found = _GATE.fullmatch(text)
    if found is None:
        raise _wrong(text, "write METRIC<LIMIT or METRIC>LIMIT, such as ttft_p95<1.5s@128")
    metric, comparison, limit, at = (part and part.strip() for part in found.groups())
    if metric not in METRICS:
        near = difflib.get_close_matches(metric, METRICS, n=1)
        known = f"{', '.join(_LATENCIES)} with {', '.join(_STATISTICS)}; {', '.join(_RATES)}"
        what = f"{metric!r} is not measured" if metric else "it names no metric"
        raise _wrong(text, f"{what}: {f'did you mean {near[0]}?' if near else known}")
    if at is not None and _USERS.fullmatch(at) is None:
        raise _wrong(text, f"{at!r} is no number of requests in flight, such as @128")
    number = _limit(text, metric, limit)
    where = "" if at is None else f"@{at}"
    written = f"{metric}{comparison}{''.join(limit.split())}{where}"
    return Gate(metric, comparison, number, None if at is None else int(at), written)


def _limit(text: str, metric: str, limit: str) -> float:
    found = _LIMIT.fullmatch(limit)
    number = math.inf if found is None else float(found[1])
    if found is None or not math.isfinite(number):
        raise _wrong(text, f"{limit!r} is no limit, such as {_example(metric)}")
    unit = found[2]
    if metric in _RATES:
        if unit:
            raise _wrong(text, f"{metric} has no unit: write {found[1]}")
        return number
    if unit not in _SECONDS:
        what = f"{unit!r} is no unit of it" if unit else "its unit is missing"
        raise _wrong(text, f"{what}: write seconds or milliseconds, such as {found[1]}s")
    return number * _SECONDS[unit]


def _example(metric: str) -> str:
    return "1000" if metric in _RATES else "1.5s or 1500ms"


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"{text[:80]!r} is no gate: {why}.".replace("?.", "?"), option=_OPTION)
