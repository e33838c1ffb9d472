"""Several zones: the first to grant wins, the others are deleted, nothing is forgotten."""

from __future__ import annotations

import pytest

from tests.provider.fakes import (
    JsonObject,
    args,
)
from tests.provider.zones import HOUR, QUOTA, A, B, C, Zone, granted, name, race
from tpuflex.errors import ApiError, QuotaError
from tpuflex.provider.call import UnreadyError
from tpuflex.queued_resource.states import Lifecycle


def test_two_winners_at_once_leave_one() -> None:
    """When both become ACTIVE together, the first zone keeps its slice and the other goes."""
    run = race(a=Zone(granted(600)), b=Zone(granted(600)))

    assert run.go().name == name(A)

    assert run.zones.running() == [A]


def test_loser_in_provisioning_is_deleted_once_that_is_possible() -> None:
    """PROVISIONING cannot be deleted: the loser is waited for, and never left running."""
    run = race(a=Zone(granted(600, 60)), b=Zone(granted(600, 5000)))

    assert run.go().name == name(A)

    assert run.zones.running() == [A]
    assert run.time.now >= 1000 + 5600
    assert "cannot be deleted yet: PROVISIONING" in run.said.text


def test_a_run_that_ends_while_a_loser_is_being_deleted() -> None:
    """What won has no hosts any more when the loser is gone at last: `up` says so, and fails."""
    won = {**granted(600, 60), 5000.0: "SUSPENDED"}
    run = race(a=Zone(won), b=Zone(granted(600, 5000)))

    with pytest.raises(UnreadyError, match=r"the run of .*us-east5-a.* is over") as ended:
        run.go()

    assert ended.value.snapshot.lifecycle is Lifecycle.ENDED
    assert run.zones.running() == [A]  # what it has left, which the state keeps


def test_unsupported_zone_is_out_with_its_reason_and_the_race_goes_on() -> None:
    """A zone that rejects the request is named with the reason; the others keep waiting."""
    rejected: JsonObject = {
        "code": 3,
        "message": "FLEX_START provisioning model is not supported for accelerator type v6e-4",
    }
    run = race(
        a=Zone(operation_error=rejected),
        b=Zone(granted(720)),
        c=Zone(refuse=QuotaError(QUOTA)),
    )

    assert run.go().name == name(B)

    assert f"{A} has failed: unsupported" in run.said.text
    assert f"{C} has failed: quota 0 of 64" in run.said.text
    beats = [line for _, line in run.said.lines if "so far" in line]
    assert any(f"{A} unsupported, {B} waiting 11m, {C} quota 0 of 64" in line for line in beats)
    assert run.zones.running() == [B]


def test_all_refused_for_quota_is_a_matter_of_quota() -> None:
    """One reason in all zones decides who has to act."""
    run = race(a=Zone(refuse=QuotaError(QUOTA)), b=Zone(refuse=QuotaError(QUOTA)))

    with pytest.raises(QuotaError):
        run.go()


def test_failed_zone_is_cleared_while_others_wait() -> None:
    """A request that FAILED uses quota: it is deleted at once, and the race goes on."""
    failed = {0.0: "WAITING_FOR_RESOURCES", 60.0: "FAILED"}
    failure: JsonObject = {"code": 8, "message": "There is no more capacity in the zone"}
    run = race(a=Zone(failed, failure=failure), b=Zone())

    with pytest.raises(UnreadyError, match="not active after 2h in the queue") as ended:
        run.go(queue=2 * HOUR)

    assert f"{A} has failed: stock-out" in run.said.text
    assert run.zones.running() == [B]
    assert ended.value.snapshot.name == name(B)
    assert f"{A} stock-out, {B} waiting 2h" in ended.value.message


@pytest.mark.parametrize("stop", [1000.0 + at for at in (0.3, 1, 10, 300, 599, 601, 605, 650)])
def test_cancelled_at_any_time_nothing_is_forgotten(stop: float) -> None:
    """Whenever the engine cancels, what runs is in the state."""
    run = race(stop_at=stop, a=Zone(granted(600, 1)), b=Zone(granted(600, 90)))

    with pytest.raises(UnreadyError) as ended:
        run.go()

    seen = ended.value.snapshot
    assert {request.zone for request in (seen.name, *seen.also)} >= set(run.zones.running())


def test_killed_between_two_posts_is_taken_up_again() -> None:
    """What an earlier run placed is found by its name; only the rest is requested."""
    run = race(a=Zone(there=True), b=Zone(granted(300)))

    assert run.go().name == name(B)

    assert run.asked() == [B]
    assert (
        "found the request of an earlier run, made at 2026-11-21T08:00:00.123456789Z, us-east5-a: W"
        in run.said.text
    )
    assert run.zones.running() == [B]


def test_killed_after_the_win_asks_for_nothing() -> None:
    """An earlier run has a winner already: no other zone is asked again."""
    run = race(a=Zone(), b=Zone({0.0: "ACTIVE"}, there=True))

    assert run.go().name == name(B)

    assert run.asked() == []
    assert run.time.now == 1000


def test_requests_in_zones_that_are_named_no_more_go() -> None:
    """A zone taken off the list loses its request."""
    run = race(a=Zone(granted(300)), b=Zone())
    run.zones.zones[C] = Zone(there=True)

    assert run.go(known=[name(C), name(A)]).name == name(A)

    assert run.zones.running() == [A]


def test_own_request_with_other_settings_stops_everything_before_it_begins() -> None:
    """A request of ours with other settings is neither adopted nor deleted."""
    other = args(zones=[B], acceleratorType="v6e-8")
    run = race(a=Zone(), b=Zone({0.0: "ACTIVE"}, there=True, of=other))

    with pytest.raises(ApiError, match="other settings"):
        run.go()

    assert run.asked() == []
    assert run.zones.running() == [B]


def test_foreign_request_puts_its_zone_out() -> None:
    """Somebody else's request under our name is left alone; the other zone is tried."""
    theirs = args(zones=[A], labels={"tpuflex-owner": "ffff", "tpuflex-stack": "prod"})
    run = race(a=Zone({0.0: "ACTIVE"}, there=True, of=theirs), b=Zone(granted(60)))

    assert run.go().name == name(B)

    assert f"{A} has failed: name taken" in run.said.text
    assert run.zones.running() == [A, B]
    assert run.script.count("DELETE") == 0


def test_queue_deadline_does_not_end_what_was_granted() -> None:
    """A request granted just before the queue deadline still gets its hosts."""
    run = race(a=Zone(granted(HOUR - 60, 1800)), b=Zone())

    assert run.go(queue=HOUR).name == name(A)


def test_ordered_goes_on_at_once_after_a_rejection() -> None:
    """A zone that cannot take it costs no time, and leaves the others a larger share."""
    run = race("ordered", a=Zone(refuse=ApiError("not supported", status=400)), b=Zone(), c=Zone())

    with pytest.raises(UnreadyError, match="in the queue") as ended:
        run.go(queue=2 * HOUR)

    assert run.asked() == [A, B, C]
    assert run.time.now == pytest.approx(1000 + 2 * HOUR, abs=1)
    assert ended.value.snapshot.name == name(C)
    assert ended.value.snapshot.also == ()
    assert f"{A} unsupported, {B} withdrawn after 1h, {C} waiting 59m" in ended.value.message


def test_ordered_waits_in_one_zone_only() -> None:
    """After a race was made an ordered wait, only one of its requests stays."""
    run = race("ordered", a=Zone(there=True), b=Zone(there=True))

    with pytest.raises(UnreadyError) as ended:
        run.go(queue=HOUR)

    assert len(run.zones.running()) == 1
    assert ended.value.snapshot.also == ()
