"""The breaker on the time to the first token."""

from __future__ import annotations

import pytest

from tpuflex.gateway.first_token import (
    LEAST,
    MOST_OPEN_S,
    OPEN_S,
    PROBES,
    WINDOW_S,
    FirstTokenBreaker,
    FirstTokenLimits,
    Pace,
)

LIMITS = FirstTokenLimits(slow=1.5, very_slow=2.0)


def answered(breaker: FirstTokenBreaker, now: float, *seconds: float) -> None:
    """Requests that began so long before ``now`` have their first tokens now."""
    for each in seconds:
        breaker.first_token(breaker.begin(now - each), now)


@pytest.mark.parametrize(
    ("late", "pace"),
    [(1.4, Pace.NORMAL), (1.5, Pace.NORMAL), (1.6, Pace.SLOW), (2.1, Pace.VERY_SLOW)],
)
def test_more_than_five_percent_of_late_first_tokens_open_it(late: float, pace: Pace) -> None:
    """One of twenty may be late, which is where the 95th percentile is the limit."""
    breaker = FirstTokenBreaker(LIMITS)

    answered(breaker, 10, *[0.5] * (LEAST - 1), late)
    assert breaker.pace(10) is Pace.NORMAL
    answered(breaker, 10, late)
    assert breaker.pace(10) is pace


def test_few_first_tokens_say_nothing() -> None:
    """Nor do those of more than half a minute ago."""
    breaker = FirstTokenBreaker(LIMITS)

    answered(breaker, 10, *[9.0] * (LEAST - 1))
    assert breaker.pace(10) is Pace.NORMAL
    answered(breaker, 10.5 + WINDOW_S, 9.0)
    assert breaker.pace(10.5 + WINDOW_S) is Pace.NORMAL


def test_a_frozen_upstream_opens_it_without_a_single_first_token() -> None:
    """Requests that wait longer than is allowed count as late while they wait."""
    breaker = FirstTokenBreaker(LIMITS)

    for _ in range(LEAST):
        breaker.begin(0)
    assert breaker.pace(1.5) is Pace.NORMAL
    assert breaker.pace(1.6) is Pace.SLOW
    assert breaker.pace(2.1) is Pace.VERY_SLOW


def opened(now: float = 0.0) -> FirstTokenBreaker:
    breaker = FirstTokenBreaker(LIMITS)
    answered(breaker, now, *[3.0] * LEAST)
    assert breaker.pace(now) is Pace.VERY_SLOW
    return breaker


def test_probes_in_time_close_it() -> None:
    """The last one does."""
    breaker = opened()
    now = OPEN_S

    probes = [breaker.begin(now) for _ in range(PROBES)]
    for number in probes:
        assert breaker.pace(now + 1) is Pace.VERY_SLOW
        breaker.first_token(number, now + 1)
    assert breaker.pace(now + 1) is Pace.NORMAL
    answered(breaker, now + 2, *[0.5] * 500)
    assert breaker.pace(now + 2) is Pace.NORMAL


def test_one_late_probe_keeps_it_open_twice_as_long() -> None:
    """At most a minute."""
    breaker, now = opened(), 0.0
    wait = OPEN_S

    for _ in range(8):
        now += wait
        assert breaker.pace(now - 0.1) is not Pace.NORMAL
        assert breaker.pace(now) is Pace.NORMAL
        probes = [breaker.begin(now) for _ in range(PROBES)]
        now += 3
        for number in probes:
            breaker.first_token(number, now)
        wait = min(2 * wait, MOST_OPEN_S)


def test_a_client_that_leaves_gives_its_probe_back() -> None:
    """However late it is, or one client could keep it open; and so many probes as before begin. One
    that the upstream fails late is an answer."""
    breaker, now = opened(), OPEN_S

    for seconds in (1, 4):
        for number in [breaker.begin(now) for _ in range(PROBES)]:
            assert not breaker.gone(number, now + seconds, left=True)
        now += seconds
    assert breaker.pace(now) is Pace.NORMAL
    probes = [breaker.begin(now) for _ in range(PROBES)]
    assert breaker.pace(now) is Pace.VERY_SLOW
    for number in probes:
        assert breaker.gone(number, now + 4)
    assert breaker.pace(now + 4) is Pace.VERY_SLOW


def test_requests_that_have_no_other_way_judge_it_without_probes() -> None:
    """Where there is no second pool, a slow upstream goes on getting requests."""
    breaker = FirstTokenBreaker(LIMITS)
    answered(breaker, 0, *[1.8] * LEAST)
    assert breaker.pace(1) is Pace.SLOW

    answered(breaker, 2, *[1.8] * LEAST)
    assert breaker.pace(OPEN_S) is Pace.SLOW
    answered(breaker, OPEN_S + 1, *[0.5] * LEAST)
    assert breaker.pace(2 * OPEN_S) is Pace.NORMAL


def test_while_open_it_may_become_worse() -> None:
    """Slow becomes very slow at once."""
    breaker = FirstTokenBreaker(LIMITS)
    answered(breaker, 0, *[1.8] * LEAST)

    answered(breaker, 1, *[2.5] * LEAST)
    assert breaker.pace(1) is Pace.VERY_SLOW
