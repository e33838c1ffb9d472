"""The algebra of alerts: what a rule asks of its signals.

A condition is judged over looks at an endpoint (:mod:`tpuflex.alerts.judgement`), and written in
PromQL (:mod:`tpuflex.alerts.promql`); both mean the same. Whether a counter has moved at all does
not depend on how Prometheus extrapolates. The share of two does, as long as they have few samples:
a rule over it has to hold for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from tpuflex.alerts.signals import Signal

Comparison = Literal[">", "<", "==", ">="]


@dataclass(frozen=True, slots=True)
class Compared:
    """A gauge compared with a limit.

    Attributes:
        signal: the gauge.
        comparison: how.
        limit: with what; None where that is not known, and then neither is the condition.
        throughout: over which time each of its values has to compare so; by default the last one.
    """

    signal: Signal
    comparison: Comparison
    limit: float | None
    throughout: timedelta = timedelta()

    @property
    def window(self) -> timedelta:
        """The time that it looks back."""
        return self.throughout


@dataclass(frozen=True, slots=True)
class Increase:
    """How much a counter, or the number of a histogram's observations, has grown.

    Attributes:
        signal: the counter.
        comparison: how it is compared.
        limit: with what.
        window: in which time.
    """

    signal: Signal
    comparison: Comparison
    limit: float
    window: timedelta


@dataclass(frozen=True, slots=True)
class ShareAbove:
    """The share of a histogram's observations above one of its edges; without any, it is false.

    Attributes:
        signal: the histogram.
        edge: the edge.
        limit: the share that has to be exceeded.
        window: in which time they were observed.
    """

    signal: Signal
    edge: float
    limit: float
    window: timedelta

    @property
    def comparison(self) -> Comparison:
        """How it is compared."""
        return ">"


@dataclass(frozen=True, slots=True)
class ShareOf:
    """How much of the growth of a counter is that of another one; without any, it is false.

    Attributes:
        signal: the part.
        whole: the counter that it is a part of.
        limit: the share that has to be exceeded.
        window: in which time both have grown.
    """

    signal: Signal
    whole: Signal
    limit: float
    window: timedelta

    @property
    def comparison(self) -> Comparison:
        """How it is compared."""
        return ">"


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of them are true."""

    of: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """One of them is true."""

    of: tuple[Condition, ...]


#: What compares one number with its limit.
Part = Compared | Increase | ShareAbove | ShareOf
Condition = Part | AllOf | AnyOf


def signals_of(condition: Condition) -> frozenset[Signal]:
    """What ``condition`` asks about."""
    return frozenset(each.signal for each in parts_of(condition))


def parts_of(condition: Condition) -> Iterator[Part]:
    """The comparisons that ``condition`` is made of."""
    if isinstance(condition, AllOf | AnyOf):
        for each in condition.of:
            yield from parts_of(each)
    else:
        yield condition
