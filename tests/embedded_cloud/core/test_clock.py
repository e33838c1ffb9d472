"""Time, and the ways Google's APIs write it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.core.clock import (
    ManualClock,
    OffsetClock,
    parse_duration,
    parse_rfc3339,
    rfc3339,
)


@given(st.floats(min_value=0, max_value=4e9))
def test_a_stamp_reads_back(epoch: float) -> None:
    """What is written can be read again, to the microsecond."""
    assert parse_rfc3339(rfc3339(epoch)) == pytest.approx(epoch, abs=2e-6)


@pytest.mark.parametrize(
    "stamp",
    ["2026-11-21T12:00:00Z", "2026-11-21T13:00:00+01:00", "2026-11-21T12:00:00.000000000Z"],
)
def test_any_precision_and_offset_is_read(stamp: str) -> None:
    """Seconds, nanoseconds and other offsets than Z are the same moment."""
    assert parse_rfc3339(stamp) == 1_795_262_400.0


@pytest.mark.parametrize("stamp", ["", "tomorrow", "2026-11-21", "2026-11-21T12:00:00"])
def test_a_stamp_without_zone_or_time_is_refused(stamp: str) -> None:
    """An incomplete timestamp is an error, never a guess."""
    with pytest.raises(ValueError, match=r"time zone|isoformat"):
        parse_rfc3339(stamp)


def test_durations_are_seconds_with_a_suffix() -> None:
    """The JSON form of a protobuf duration."""
    assert parse_duration("14400s") == 14400.0
    assert parse_duration("0.5s") == 0.5
    with pytest.raises(ValueError, match="4h"):
        parse_duration("4h")


def test_a_clock_only_moves_forward() -> None:
    """Advancing adds up; a step back is refused."""
    base = ManualClock(100.0)
    clock = OffsetClock(base, offset=5.0)
    clock.advance(10)
    base.advance(1)
    assert clock.now() == 116.0
    for moved in (base, clock):
        with pytest.raises(ValueError, match="-1"):
            moved.advance(-1)
