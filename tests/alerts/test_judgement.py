"""What rules say of looks: at the edges of their windows, and where looks are missing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from tpuflex.advice import Advice
from tpuflex.alerts.conditions import AllOf, AnyOf, Compared, Condition, Increase, ShareAbove
from tpuflex.alerts.judgement import Judge, Look, State, read
from tpuflex.alerts.rules import AlertRule
from tpuflex.alerts.signals import GENERATED, RUNNING, SPENT_USD, TTFT, WAITING, Signal

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE, NONE = timedelta(minutes=1), timedelta()


def look(seconds: float, numbers: Mapping[Signal, float], *slow: float) -> Look:
    """A look, with the first tokens up to 1 s and all of them."""
    histograms = {TTFT: {1.0: slow[0], math.inf: slow[1]}} if slow else {}
    return Look(NOON + timedelta(seconds=seconds), numbers, histograms)


def counted(signal: Signal, *values: float) -> list[Look]:
    """A look at a counter every 30 s."""
    return [look(30 * at, {signal: value}) for at, value in enumerate(values)]


def rule(condition: Condition, held: timedelta = NONE) -> AlertRule:
    return AlertRule("It", "page", "It is so.", condition, held, "it", Advice("look"))


GROWN = Increase(GENERATED, ">", 0, MINUTE)
STILL = Increase(GENERATED, "==", 0, MINUTE)
ENOUGH = Increase(GENERATED, ">=", 20, MINUTE)
BUSY = Compared(RUNNING, ">", 0, throughout=MINUTE)
SLOW = ShareAbove(TTFT, 1.0, 0.05, MINUTE)


@pytest.mark.parametrize(
    ("part", "looks", "truth"),
    [
        (Compared(WAITING, ">", 0), [look(0, {WAITING: 1})], True),
        (Compared(WAITING, ">", 0), [look(0, {WAITING: 0})], False),
        (Compared(WAITING, ">", 0), [look(0, {})], None),
        (Compared(SPENT_USD, ">", None), [look(0, {SPENT_USD: 5})], None),
        (BUSY, counted(RUNNING, 1, 1, 1), True),
        # A minute ago nobody looked yet.
        (BUSY, counted(RUNNING, 1, 1), None),
        (BUSY, counted(RUNNING, 1, 0, 1), False),
        (BUSY, counted(RUNNING, 0, 1), False),
        (GROWN, counted(GENERATED, 7, 7, 8), True),
        (GROWN, counted(GENERATED, 7, 8), True),
        (GROWN, counted(GENERATED, 7, 7, 7), False),
        (GROWN, counted(GENERATED, 7, 7), None),
        # None since the server's start.
        (GROWN, counted(GENERATED, 0), False),
        # What lies before the window does not count.
        (GROWN, counted(GENERATED, 6, 7, 7, 7), False),
        (STILL, counted(GENERATED, 7, 7, 7), True),
        (STILL, counted(GENERATED, 7, 7), None),
        (STILL, counted(GENERATED, 7, 8), False),
        # The server was started again: it counts from 0.
        (STILL, counted(GENERATED, 7, 3, 3), False),
        (ENOUGH, counted(GENERATED, 100, 110, 120), True),
        (ENOUGH, counted(GENERATED, 100, 110), None),
        (ENOUGH, counted(GENERATED, 5, 9), False),
        (SLOW, [look(0, {}, 90, 100), look(60, {}, 180, 200)], True),
        (SLOW, [look(0, {}, 90, 100), look(60, {}, 185, 200)], False),
        (SLOW, [look(0, {}, 90, 100), look(60, {}, 184, 200)], True),
        (SLOW, [look(0, {}, 90, 100), look(60, {}, 90, 100)], False),
        (SLOW, [look(0, {}, 90, 100), look(30, {}, 180, 200)], None),
        (SLOW, [look(0, {}, 100, 100)], False),
        (SLOW, [Look(NOON, histograms={TTFT: {2.0: 9, math.inf: 9}})], None),
    ],
)
def test_a_part_over_looks(
    part: Compared | Increase | ShareAbove, looks: Sequence[Look], truth: bool | None
) -> None:
    """It is true or false where its window was looked at, or where the rest of that window cannot
    change it; otherwise not known, and says why."""
    found = read(part, looks)

    assert found.truth is truth
    assert bool(found.why) is (truth is None)


YES, NO, MAYBE = (Compared(signal, ">", 0) for signal in (RUNNING, WAITING, GENERATED))
KNOWN = look(0, {RUNNING: 1, WAITING: 0})


@pytest.mark.parametrize(
    ("condition", "state"),
    [
        (AllOf((YES, YES)), State.FIRING),
        (AllOf((YES, NO)), State.OK),
        (AllOf((MAYBE, NO)), State.OK),
        (AllOf((MAYBE, YES)), State.UNKNOWN),
        (AnyOf((NO, NO)), State.OK),
        (AnyOf((MAYBE, YES)), State.FIRING),
        (AnyOf((MAYBE, NO)), State.UNKNOWN),
        (AllOf((YES, AnyOf((NO, YES)))), State.FIRING),
    ],
)
def test_what_is_not_known_decides_nothing(condition: Condition, state: State) -> None:
    """A rule is judged where what is known decides it, and is never quiet where that does not."""
    (found,) = Judge([rule(condition)]).look(KNOWN)

    assert found.state is state
    assert (found.why == "generation_tokens is not among its metrics") is (state is State.UNKNOWN)


def test_a_condition_has_to_hold() -> None:
    """A rule is pending until its condition has held long enough; a look at which it does not, or
    is not known, begins that time again."""
    judge = Judge([rule(YES, held=MINUTE)])
    seen = [1, 1, 1, 0, 1, 1, None, 1, 1, 1]
    looks = (
        look(30 * at, {} if value is None else {RUNNING: value}) for at, value in enumerate(seen)
    )

    assert [judge.look(each)[0].state.value for each in looks] == [
        *("pending", "pending", "firing", "ok"),
        *("pending", "pending", "unknown"),
        *("pending", "pending", "firing"),
    ]


def test_looks_are_kept_as_long_as_a_window_needs_them() -> None:
    """A watch that runs for days keeps the looks of the longest window, and one before it."""
    judge = Judge([rule(GROWN)])
    for at in range(1000):
        (found,) = judge.look(look(30 * at, {GENERATED: 7}))

    assert found.state is State.OK
    assert len(judge.looks) == 3
