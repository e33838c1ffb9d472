"""Rules judged over looks at an endpoint, without a Prometheus: they say of the same numbers what
its expressions say, and "not known" where the looks do not reach back far enough."""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import pairwise

from tpuflex.alerts.conditions import (
    AllOf,
    AnyOf,
    Compared,
    Comparison,
    Condition,
    Increase,
    Part,
    ShareAbove,
    ShareOf,
    parts_of,
)
from tpuflex.alerts.rules import AlertRule
from tpuflex.alerts.signals import Kind, Signal
from tpuflex.duration import format_duration

_COMPARE: Mapping[Comparison, Callable[[float, float], bool]] = {
    ">": operator.gt,
    "<": operator.lt,
    "==": operator.eq,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True)
class Look:
    """What is known of an endpoint at one time.

    Attributes:
        at: that time.
        numbers: value of each gauge and counter that is known.
        histograms: edges of each histogram -> observations up to it; the infinite one has all.
        missing: why a signal is not known.
    """

    at: datetime
    numbers: Mapping[Signal, float] = field(default_factory=dict)
    histograms: Mapping[Signal, Mapping[float, float]] = field(default_factory=dict)
    missing: Mapping[Signal, str] = field(default_factory=dict)

    def count(self, signal: Signal, edge: float = math.inf) -> float | None:
        """Value of a counter; observations of a histogram up to ``edge``. None if not known."""
        if signal.kind is Kind.HISTOGRAM:
            return self.histograms.get(signal, {}).get(edge)
        return self.numbers.get(signal)


class State(StrEnum):
    """What a rule says.

    Attributes:
        FIRING: its condition has held long enough.
        PENDING: it holds, and not yet long enough.
        OK: it does not hold.
        UNKNOWN: whether it holds is not known.
    """

    FIRING = "firing"
    PENDING = "pending"
    OK = "ok"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a part of a condition was compared with.

    Attributes:
        part: the part.
        value: the value; None where it is not known.
        truth: whether the part is true; None where the looks do not show it.
        why: why not.
        waits: whether later looks will show it.
        whole: whether its whole window was looked at.
    """

    part: Part
    value: float | None
    truth: bool | None
    why: str = ""
    waits: bool = False
    whole: bool = True

    @property
    def unknowable(self) -> bool:
        """Whether more looks do not help."""
        return self.truth is None and not self.waits

    def to_json(self) -> dict[str, object]:
        """It in the document of ``tpuflex alerts --json``."""
        part = self.part
        value = None if self.value is None or math.isinf(self.value) else self.value
        return {
            "signal": part.signal.name,
            "measures": _MEASURES[type(part)],
            "edge": part.edge if isinstance(part, ShareAbove) else None,
            "window_seconds": part.window.total_seconds(),
            "whole_window": self.whole,
            "value": value,
            "comparison": part.comparison,
            "limit": part.limit,
            "true": self.truth,
            "why": self.why,
        }


_MEASURES: Mapping[type[Part], str] = {
    Compared: "value",
    Increase: "increase",
    ShareAbove: "share_above_edge",
    ShareOf: "share",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a rule says at a look.

    Attributes:
        rule: the rule.
        state: what it says.
        since: since when its condition has held; None where it does not.
        readings: what its parts say.
    """

    rule: AlertRule
    state: State
    since: datetime | None
    readings: tuple[Reading, ...]

    @property
    def why(self) -> str:
        """Why it is not known; empty where it is."""
        if self.state is not State.UNKNOWN:
            return ""
        open_ = [each for each in self.readings if each.truth is None]
        # The longest window decides how long looks have to go on; and where they do not help, what
        # keeps them from it.
        waiting = max(open_, key=lambda each: each.part.window)
        whys = [each.why for each in open_ if each.unknowable] or [waiting.why]
        return "; ".join(dict.fromkeys(whys))

    def to_json(self, stack: str) -> dict[str, object]:
        """It in the document of ``tpuflex alerts --json`` about ``stack``."""
        rule = self.rule
        return {
            "alert": rule.name,
            "state": self.state.value,
            "severity": rule.severity,
            "summary": rule.summary,
            "since": self.since and self.since.isoformat(),
            "held_seconds": rule.held.total_seconds(),
            "runbook": rule.runbook,
            "next": rule.next.for_stack(stack),
            "why": self.why,
            "readings": [each.to_json() for each in self.readings],
        }


class Judge:
    """Rules over the looks of one endpoint, one after the other.

    Args:
        rules: the rules.
    """

    def __init__(self, rules: Iterable[AlertRule]) -> None:
        self._rules = tuple(rules)
        self.looks = deque[Look]()
        self._since: dict[str, datetime] = {}
        windows = (part.window for rule in self._rules for part in parts_of(rule.condition))
        self._longest = max(windows, default=timedelta())

    def look(self, look: Look) -> tuple[Verdict, ...]:
        """What the rules say of ``look``, which is later than all before it."""
        looks = self.looks
        looks.append(look)
        # One from before the longest window shows that all of it was looked at.
        while len(looks) > 1 and looks[1].at <= look.at - self._longest:
            looks.popleft()
        return tuple(self._verdict(rule, tuple(looks)) for rule in self._rules)

    def _verdict(self, rule: AlertRule, looks: Sequence[Look]) -> Verdict:
        readings = {part: read(part, looks) for part in parts_of(rule.condition)}
        truth = _truth(rule.condition, readings)
        at, found = looks[-1].at, tuple(readings.values())
        if not truth:
            self._since.pop(rule.name, None)
            state = State.UNKNOWN if truth is None else State.OK
            return Verdict(rule, state, None, found)
        since = self._since.setdefault(rule.name, at)
        state = State.FIRING if at - since >= rule.held else State.PENDING
        return Verdict(rule, state, since, found)


def read(part: Part, looks: Sequence[Look]) -> Reading:
    """What ``part`` says at the last of ``looks``.

    Where they do not reach back over all of its window, it says what the rest of the window cannot
    change, and nothing else.
    """
    last, window = looks[-1], part.window
    begin = last.at - window
    within = [each for each in looks if each.at >= begin]
    if window and len(within) == 1:
        within = list(looks[-2:])  # they are further apart than the window is long
    # A server that does not answer any more leaves what it has said in the window.
    known = [each for each in within if each.count(part.signal) is not None] if window else within
    whole = looks[0].at <= begin
    value, truth = _found(part, known or [last], whole)
    if truth is not None:
        return Reading(part, value, truth, whole=whole)
    if isinstance(part, Compared) and part.limit is None:
        return Reading(part, value, None, f"no limit of {part.signal.name} is known")
    if not known or known[-1].count(part.signal) is None:
        why = last.missing.get(part.signal) or f"{part.signal.name} is not among its metrics"
        return Reading(part, value, None, why)
    if isinstance(part, ShareAbove) and known[-1].count(part.signal, part.edge) is None:
        return Reading(part, value, None, f"its histogram has no edge at {part.edge:g}")
    why = f"it takes looks over {format_duration(window)}"
    return Reading(part, value, None, why, waits=True, whole=whole)


Found = tuple[float | None, bool | None]


def _found(part: Part, within: Sequence[Look], whole: bool) -> Found:
    """The value of ``part``, and whether it is true; None where ``within`` does not show it."""
    if isinstance(part, Compared):
        return _compared(part, within, whole)
    if isinstance(part, Increase):
        return _increase(part, within, whole)
    if isinstance(part, ShareOf):
        return _share_of(part, within, whole)
    return _share_above(part, within, whole)


def _compared(part: Compared, within: Sequence[Look], whole: bool) -> Found:
    value = within[-1].numbers.get(part.signal)
    if value is None or part.limit is None:
        return value, None
    limit, compare = part.limit, _COMPARE[part.comparison]
    known = (each.numbers.get(part.signal) for each in within)
    if not all(compare(each, limit) for each in known if each is not None):
        return value, False
    return value, True if whole else None


def _increase(part: Increase, within: Sequence[Look], whole: bool) -> Found:
    total = within[-1].count(part.signal)
    if total is None:
        return None, None
    compare, grown = _COMPARE[part.comparison], _grown(within, part.signal)
    truth = compare(grown, part.limit)
    # It was no less than what was seen, and no more than all since the server's start.
    most = total if grown <= total else math.inf
    certain = truth == compare(most, part.limit) and not grown < part.limit < most
    return grown, truth if certain or (whole and len(within) > 1) else None


def _share_above(part: ShareAbove, within: Sequence[Look], whole: bool) -> Found:
    every, below = (within[-1].count(part.signal, edge) for edge in (math.inf, part.edge))
    if every is None or below is None:
        return None, None
    grown = _grown(within, part.signal)
    slow = grown - _grown(within, part.signal, part.edge)
    share = slow / grown if grown > 0 else None
    truth = share is not None and share > part.limit
    # None since the server's start, so none in the window.
    return share, truth if every == below or (whole and len(within) > 1) else None


def _share_of(part: ShareOf, within: Sequence[Look], whole: bool) -> Found:
    total = within[-1].count(part.signal)
    if total is None or within[-1].count(part.whole) is None:
        return None, None
    grown = _grown(within, part.whole)
    share = _grown(within, part.signal) / grown if grown > 0 else None
    truth = share is not None and share > part.limit
    return share, truth if total == 0 or (whole and len(within) > 1) else None


def _grown(looks: Sequence[Look], signal: Signal, edge: float = math.inf) -> float:
    """How much a counter has grown over ``looks``; one that fell began at 0 again."""
    counts = [count for each in looks if (count := each.count(signal, edge)) is not None]
    return sum(now - before if now >= before else now for before, now in pairwise(counts))


def _truth(condition: Condition, readings: Mapping[Part, Reading]) -> bool | None:
    """Whether ``condition`` is true; None where what is not known could change it."""
    if not isinstance(condition, AllOf | AnyOf):
        return readings[condition].truth
    decisive = isinstance(condition, AnyOf)
    truths = [_truth(each, readings) for each in condition.of]
    if decisive in truths:
        return decisive
    return None if None in truths else not decisive
