"""Aligning the points of a time series, and reducing several series to one. Pure.

https://cloud.google.com/monitoring/api/v3/aggregation. Times are seconds since the epoch.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = "float | int | bool"
#: End of a period, and the value of it.
Aligned: TypeAlias = dict[float, Value]

_NUMBERS = frozenset({"INT64", "DOUBLE"})


@dataclass(frozen=True, slots=True)
class Point:
    """One point: what was measured from ``start`` to ``end``."""

    start: float
    end: float
    value: Value


@dataclass(frozen=True, slots=True)
class Periods:
    """Periods of ``length`` seconds that end with ``end`` and lie after ``start``."""

    start: float
    end: float
    length: float

    def ends(self) -> list[float]:
        """The end of every period, the earliest first."""
        count = int((self.end - self.start) // self.length)
        return [self.end - index * self.length for index in reversed(range(count))]

    def within(self, points: Sequence[Point], end: float) -> list[Point]:
        """The points of the period that ends then."""
        return [point for point in points if end - self.length < point.end <= end]


Align: TypeAlias = Callable[[Sequence[Point], Periods], Aligned]


@dataclass(frozen=True, slots=True)
class Aligner:
    """A way to align.

    Attributes:
        align: points to a value for each period that has one.
        kinds: of metrics that it applies to.
        types: of values that it applies to.
        kind: of what comes out; empty for that of what goes in.
        type: of the values that come out; empty for that of those that go in.
    """

    align: Align
    kinds: frozenset[str] = frozenset({"GAUGE", "DELTA"})
    types: frozenset[str] = _NUMBERS
    kind: str = ""
    type: str = ""


@dataclass(frozen=True, slots=True)
class Reducer:
    """A way to reduce: values of one period to one.

    Attributes:
        reduce: the values of all series to one.
        types: of values that it applies to.
        type: of the value that comes out; empty for that of those that go in.
    """

    reduce: Callable[[Sequence[Value]], Value]
    types: frozenset[str] = _NUMBERS
    type: str = ""


def _mean(values: Sequence[Value]) -> Value:
    return sum(map(float, values)) / len(values)


def _sum(values: Sequence[Value]) -> Value:
    return sum(values)


def _each(combine: Callable[[Sequence[Value]], Value]) -> Align:
    """Combine the values of each period that has any."""

    def align(points: Sequence[Point], periods: Periods) -> Aligned:
        found = {end: periods.within(points, end) for end in periods.ends()}
        return {end: combine([point.value for point in of]) for end, of in found.items() if of}

    return align


def _next_older(points: Sequence[Point], periods: Periods) -> Aligned:
    """The newest value before the end of each period, which may be of an earlier one."""
    older = {end: [point for point in points if point.end <= end] for end in periods.ends()}
    return {end: of[-1].value for end, of in older.items() if of}


def _delta(points: Sequence[Point], periods: Periods) -> Aligned:
    """What was added in each period: between points, as much in every second."""
    knots = _totals(points)
    times = [at for at, _ in knots]

    def total(at: float) -> float:
        index = max(bisect_left(times, at), 1)
        (before, low), (after, high) = knots[index - 1], knots[index]
        return low + (high - low) * (at - before) / (after - before)

    return {
        end: total(end) - total(max(end - periods.length, times[0]))
        for end in periods.ends()
        if times and times[0] < end <= times[-1]
    }


def _totals(points: Sequence[Point]) -> list[tuple[float, float]]:
    """(time, all that was counted until then), over resets of the counter."""
    knots: list[tuple[float, float]] = []
    base = total = 0.0
    for index, point in enumerate(points):
        if not index or point.start != points[index - 1].start:
            base = total
            knots.append((point.start, total))
        total = base + float(point.value)
        knots.append((point.end, total))
    return knots


def _rate(points: Sequence[Point], periods: Periods) -> Aligned:
    return {end: float(each) / periods.length for end, each in _delta(points, periods).items()}


_GROWING = frozenset({"CUMULATIVE", "DELTA"})
_GAUGES = frozenset({"GAUGE"})
_COUNTED = _NUMBERS | {"BOOL"}

#: Of the API's aligners those that are spoken here; others are refused.
ALIGNERS: Mapping[str, Aligner] = {
    "ALIGN_MIN": Aligner(_each(lambda values: min(values, key=float))),
    "ALIGN_MAX": Aligner(_each(lambda values: max(values, key=float))),
    "ALIGN_MEAN": Aligner(_each(_mean), type="DOUBLE"),
    "ALIGN_SUM": Aligner(_each(_sum)),
    "ALIGN_COUNT": Aligner(_each(len), types=_COUNTED, type="INT64"),
    "ALIGN_NEXT_OLDER": Aligner(_next_older, kinds=_GAUGES, types=_COUNTED),
    "ALIGN_DELTA": Aligner(_delta, kinds=_GROWING, kind="DELTA"),
    "ALIGN_RATE": Aligner(_rate, kinds=_GROWING, kind="GAUGE", type="DOUBLE"),
}

#: Of the API's reducers those that are spoken here; others are refused.
REDUCERS: Mapping[str, Reducer] = {
    "REDUCE_MIN": Reducer(lambda values: min(values, key=float)),
    "REDUCE_MAX": Reducer(lambda values: max(values, key=float)),
    "REDUCE_MEAN": Reducer(_mean, type="DOUBLE"),
    "REDUCE_SUM": Reducer(_sum),
    "REDUCE_COUNT": Reducer(len, types=_COUNTED, type="INT64"),
}


def reduced(reducer: Reducer, series: Sequence[Aligned]) -> Aligned:
    """One value for each period in which any of ``series`` has one."""
    ends = sorted({end for each in series for end in each})
    return {end: reducer.reduce([each[end] for each in series if end in each]) for end in ends}
