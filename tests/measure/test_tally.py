"""What was served over time: restarts, gaps and merges of what snapshots have counted."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measure.snapshots import BEGIN, ORIGIN, Server, histogram, snapshot, unanswered
from tpuflex.measure.archive import Snapshot
from tpuflex.measure.tally import Gap, Tally, Use, quantiles, steps, timeline


def served(snapshots: list[Snapshot]) -> Tally:
    """What ``snapshots`` show together."""
    tally = Tally(snapshots[0].at)
    for step in steps(snapshots):
        tally.add(step)
    return tally


def test_quantiles_of_merged_buckets_are_those_of_prometheus() -> None:
    """Worked out on paper, as ``histogram_quantile(q, increase(…))`` does.

    Up to 0.1, 0.5 and 1 second and in all, 10, 20, 30 and 30 are counted, then 14, 40, 50 and 52; a
    new start has 2, 10, 20 and 20, then 3, 12, 25 and 26. The increase of a counter that fell is
    all that it has, so there are 4+2+1, 20+10+2, 20+20+5 and 22+20+6: 7, 32, 45 and 48. The median
    has rank 24, which is (24-7)/25 of the way from 0.1 to 0.5; p90 has 43.2, (43.2-32)/13 of the
    way from 0.5 to 1; p95 has 45.6, which is in the last bucket, and so is p99.
    """
    counts = ((10, 20, 30, 30), (14, 40, 50, 52), (2, 10, 20, 20), (3, 12, 25, 26))
    starts = (1.0, 1.0, 2.0, 2.0)
    found = served(
        [
            snapshot(minute, ttft=histogram(*each), started=started)
            for minute, (each, started) in enumerate(zip(counts, starts, strict=True))
        ]
    ).total
    assert found.ttft is not None
    assert [count for _, count in found.ttft.buckets] == [7, 32, 45, 48]
    assert quantiles(found.ttft) == pytest.approx(
        {"p50": 0.372, "p90": 0.5 + 0.5 * 11.2 / 13, "p95": 1.0, "p99": 1.0}
    )


def test_a_counter_begins_again_with_another_server() -> None:
    """After a restart, and on the slice that takes over, all that is counted is new; what was
    counted before the first snapshot is not."""
    other = replace(ORIGIN, slice="another")
    found = served(
        [
            snapshot(0, generation_tokens=1000.0),
            snapshot(1, generation_tokens=1500.0),
            snapshot(2, generation_tokens=40.0, started=BEGIN.timestamp() + 90),
            snapshot(3, other, generation_tokens=90.0, started=BEGIN.timestamp() + 100),
        ]
    ).total
    assert found.generated == 500 + 40 + 90


def test_a_gap_is_no_zero() -> None:
    """Nothing is known of the load in it; what was counted meanwhile is."""
    busy = Server(running=4.0)
    found = served(
        [
            *busy.minutes(2),
            unanswered(2, "no connection"),
            unanswered(3, "no connection"),
            *busy.minutes(2, first=4),
            *busy.minutes(2, first=65),
        ]
    )
    at = [BEGIN + timedelta(minutes=minute) for minute in (1, 4, 5, 65)]
    assert found.gaps == [
        Gap(at[0], at[1], "no connection"),
        Gap(at[2], at[3], "not recorded"),
    ]
    total = found.total
    assert (total.watched, total.busy) == (180.0, 180.0)
    assert total.generated == 66 * 6000
    # The slice was there all the time: the server has counted on.
    assert total.billed == 66 * 60
    assert [moment.running for moment in found.moments].count(None) == 4


def test_time_without_a_slice_is_not_paid() -> None:
    """A slice that boots is paid, and so is one that does not answer."""
    down = replace(ORIGIN, slice="")
    found = served(
        [
            *Server().minutes(2),
            unanswered(2, "no slice", down),
            unanswered(3, "no slice", down),
            unanswered(4, "booting"),
            unanswered(5, "booting"),
            snapshot(6, started=BEGIN.timestamp() + 330),
        ]
    ).total
    assert found.billed == (1 + 3) * 60


def test_days_and_concurrency_are_counted_apart() -> None:
    """Days are those of UTC; the peak and p95 are those of snapshots, running and waiting."""
    snapshots = [snapshot(minute, running=1.0) for minute in range(839)]
    snapshots[7] = snapshot(7, running=8.0, waiting=3.0, kv_use=0.9)
    snapshots += [snapshot(minute, running=2.0) for minute in range(840, 860)]
    found = served(snapshots)
    assert list(found.days) == [date(2026, 11, 29), date(2026, 11, 30)]
    first, second = found.days.values()
    assert (first.peak, first.p95, first.peak_at) == (11, 1, BEGIN + timedelta(minutes=7))
    assert (first.waited, first.full) == (60.0, 60.0)
    assert (second.peak, second.p95) == (2, 2)
    assert (found.peaks.running, found.peaks.kv_tokens) == (8, 90_000)


def test_snapshots_that_do_not_come_later_are_left_out() -> None:
    """As after a clock was set back, or where files were put together."""
    snapshots = Server().minutes(4)
    assert served([*snapshots, *snapshots]).total.watched == 180.0


_INCREASES = st.lists(
    st.tuples(
        st.integers(0, 500),  # observations up to 0.1 s
        st.integers(0, 500),  # and up to 0.5 s
        st.sampled_from(["answer", "answer", "answer", "gap", "restart"]),
    ),
    min_size=2,
    max_size=60,
)


@given(_INCREASES, st.integers(1, 100))
def test_whatever_restarts_and_gaps_there_are_nothing_is_counted_twice(
    increases: list[tuple[int, int, str]], apart: int
) -> None:
    """What a server counts between its first snapshot and its last one, or its end, is all there
    is; and parts put together are the whole."""
    snapshots: list[Snapshot] = []
    quick = slow = started = unseen = expected = 0.0
    for number, (fast, late, event) in enumerate(increases):
        if event == "restart":
            quick = slow = unseen = 0.0
            started += 1
        quick, slow, unseen = quick + fast, slow + late, unseen + fast + late
        minute, count = number * apart, quick + slow
        if event == "gap":
            snapshots.append(unanswered(minute, "no connection"))
            continue
        if any(each.metrics for each in snapshots):
            expected += unseen
        unseen = 0.0
        seen = histogram(quick, count, count, count)
        snapshots.append(snapshot(minute, ttft=seen, started=started, generation_tokens=count))
    found = served(snapshots)
    assert found.total.generated == expected
    assert (found.total.ttft.count if found.total.ttft else 0) == expected
    for parts in (list(found.days.values()), list(timeline(list(found.parts.values())))):
        _assert_whole(found.total, parts)


def _assert_whole(total: Use, parts: list[Use]) -> None:
    assert sum(part.generated for part in parts) == total.generated
    assert sum(part.watched for part in parts) == total.watched
    assert sum(part.billed for part in parts) == total.billed
    assert max((part.peak or 0 for part in parts), default=0) == (total.peak or 0)
    merged = [part.ttft for part in parts if part.ttft is not None]
    if total.ttft is not None:
        whole = merged[0]
        for each in merged[1:]:
            whole = whole.plus(each)
        assert whole == total.ttft
