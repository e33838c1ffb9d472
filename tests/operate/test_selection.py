"""Which of many stacks a teardown is for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tpuflex.deploy.candidates import Selection, Traits, refusal

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
TEAM = {"team": "search", "tpuflex-stack": "dev"}


@pytest.mark.parametrize(
    ("selection", "traits", "expected"),
    [
        (Selection(), Traits(), ""),
        (Selection({"team": "search"}), Traits(({}, TEAM)), ""),
        (Selection({"team": "ads"}), Traits((TEAM,)), "nothing of it is labelled team=ads"),
        (
            Selection({"team": "search", "env": "qa"}),
            Traits(({"team": "search"}, {"env": "qa"})),
            "nothing of it is labelled team=search, env=qa",
        ),
        (Selection(older_than=12 * HOUR), Traits(created=NOON - 12 * HOUR), ""),
        (
            Selection(older_than=12 * HOUR),
            Traits(created=NOON - 11 * HOUR - timedelta(seconds=90)),
            "its slice is 11h1m old",
        ),
        (Selection(older_than=HOUR), Traits(), "its age is unknown: it has no slice"),
        (
            Selection({"team": "search"}, HOUR),
            Traits((TEAM,), NOON),
            "its slice is 0s old",
        ),
    ],
)
def test_refusal(selection: Selection, traits: Traits, expected: str) -> None:
    """All conditions must hold, of one and the same resource for labels; what is not known never
    chooses a stack."""
    assert refusal(selection, traits, NOON) == expected
