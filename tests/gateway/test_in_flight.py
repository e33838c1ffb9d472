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
