"""The limit of requests in flight at one upstream."""

from __future__ import annotations

from tpuflex.gateway.in_flight import InFlightLimit


def test_late_first_tokens_lower_it_however_many_answers_are_not_streamed() -> None:
    """Of those it is not known whether they were late."""
    limit = InFlightLimit(8, 64, value=64)

    for now in range(10, 70):
        for _ in range(2):
            limit.first_token(now, late=True)
        for _ in range(1000):
            limit.whole_answer(now)
        limit.second(now, waiting=0)

    assert limit.value == 8


def test_whole_answers_do_not_hide_that_first_tokens_are_late() -> None:
    """However few they are: one a second was forgotten each second."""
    limit = InFlightLimit(16, 256)
    for second in range(60):
        limit.reached = True
        limit.first_token(second, late=True)
        for _ in range(30):
            limit.whole_answer(second)
        limit.second(second, 0)

    assert limit.value == 16
