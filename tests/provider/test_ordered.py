"""Several zones in order: one is asked after the other, and only one request stays."""

from __future__ import annotations

import pytest

from tests.provider.zones import HOUR, A, B, C, Zone, granted, name, race
from tpuflex.errors import ApiError
from tpuflex.provider.call import UnreadyError


def test_ordered_asks_one_zone_after_the_other() -> None:
    """Each zone has its share of the queue deadline; then it is withdrawn and the next asked."""
    run = race("ordered", a=Zone(), b=Zone(granted(600)), c=Zone())

    assert run.go(queue=3 * HOUR).name == name(B)

    assert run.asked() == [A, B]
    posts = [sent.at for sent in run.script.sent if sent.method == "POST"]
    assert posts[1] - posts[0] == pytest.approx(HOUR, abs=5)
    assert f"{A}: withdrawn after 1h" in run.said.text
    assert run.zones.running() == [B]


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


def test_ordered_keeps_what_is_granted_at_the_last_moment() -> None:
    """Google refuses to withdraw what it has just granted: that is the slice."""
    last = frozenset({"WAITING_FOR_RESOURCES", "PROVISIONING"})  # granted after the last look
    run = race("ordered", a=Zone(granted(HOUR + 1, 300), undeletable=last), b=Zone())

    assert run.go(queue=2 * HOUR).name == name(A)

    assert run.asked() == [A]


def test_ordered_goes_on_where_an_earlier_run_stopped() -> None:
    """The next run waits in the zone that is being asked, then goes round to the others."""
    run = race("ordered", a=Zone(granted(60)), b=Zone(there=True))

    assert run.go(queue=2 * HOUR).name == name(A)

    assert run.asked() == [A]
    assert run.zones.running() == [A]


def test_ordered_waits_in_one_zone_only() -> None:
    """After a race was made an ordered wait, only one of its requests stays."""
    run = race("ordered", a=Zone(there=True), b=Zone(there=True))

    with pytest.raises(UnreadyError) as ended:
        run.go(queue=HOUR)

    assert len(run.zones.running()) == 1
    assert ended.value.snapshot.also == ()
