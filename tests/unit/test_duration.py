"""Durations are read and written without losing or guessing anything."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuflex.duration import format_duration, google_duration, google_seconds, parse_duration


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4h", timedelta(hours=4)),
        ("90m", timedelta(minutes=90)),
        ("1h30m", timedelta(minutes=90)),
        ("7d", timedelta(days=7)),
        ("14400s", timedelta(hours=4)),
        (" 10m ", timedelta(minutes=10)),
    ],
)
def test_reads_what_people_write(text: str, expected: timedelta) -> None:
    """Days, hours, minutes and seconds may be combined, in that order."""
    assert parse_duration(text) == expected


@pytest.mark.parametrize("value", ["", "4", 4, 4.5, None, True, "h", "4 h", "30m1h", "-1h", "1.5h"])
def test_refuses_what_has_no_clear_unit(value: object) -> None:
    """A bare number is refused, as its unit would be a guess."""
    with pytest.raises(ValueError, match="write it with its unit"):
        parse_duration(value)


def test_refuses_a_duration_beyond_all_bounds() -> None:
    """A number that no clock can hold is refused, not an overflow."""
    with pytest.raises(ValueError, match="too long"):
        parse_duration("99999999999999d")


@given(st.integers(min_value=0, max_value=10**9))
def test_what_is_written_is_read_back(seconds: int) -> None:
    """Formatting and parsing are inverse for whole seconds."""
    value = timedelta(seconds=seconds)

    assert parse_duration(format_duration(value)) == value
    assert google_duration(value) == f"{seconds}s"
    assert google_seconds(google_duration(value)) == seconds


@pytest.mark.parametrize("text", ["4h", "-1s", "1.5s", "s", "", 14400, None, " 1s"])
def test_only_googles_form_has_google_seconds(text: object) -> None:
    """What is not whole seconds with the suffix s is no duration of Google's."""
    assert google_seconds(text) is None
