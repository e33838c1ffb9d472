"""What a creation waits for that takes over from a slice that serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.provider.fakes import (
    NAME,
    NODE,
    Answer,
    Cloud,
    FakeTime,
    args,
    node,
    queued,
    says,
    scripted,
    sequence,
)
from tpuflex.errors import AccessError, ApiError, TpuflexError
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.handover import HandOver
from tpuflex.request.name import RequestName

BOOTS = {"metadata": {"startup-script": "true", "tpuflex-config": "{}"}}
OLD = RequestName.parse(NAME.replace("-g1", "-g0"))
NEW = RequestName.parse(NAME)
GONE = ApiError("no answer (ConnectionError)")


class Two(Cloud):
    """What serves, and what is to take over: ``old`` and ``host`` are what their hosts report."""

    def __init__(self, *host: Answer, old: tuple[Answer, ...] = (says("READY"),)) -> None:
        super().__init__(
            request=sequence(queued("ACTIVE")),
            node=sequence(node(of=args(**BOOTS))),
            host=sequence(*host),
        )
        self._old = sequence(*old)

    def __call__(self, request: Any) -> Answer:
        if "-g0" not in request.path:
            return super().__call__(request)
        if request.path.endswith(":getGuestAttributes"):
            return next(self._old)
        asked = args(queuedResourceId=OLD.id, **BOOTS)
        if "queuedResources" in request.path:
            return {**queued("ACTIVE", asked), "name": str(OLD)}
        return node(of=asked, name=OLD.node(OLD.id))


def begun(cloud: Two, time: FakeTime | None = None, **inputs: Any) -> tuple[HandOver, Call]:
    """A hand-over from what is there."""
    call, _, _ = scripted(cloud, time)
    return HandOver.begin(call, args(**{**BOOTS, **inputs}), [OLD]), call


def waited(cloud: Two, time: FakeTime | None = None, **inputs: Any) -> float:
    """Seconds until it took over."""
    clock = time or FakeTime()
    hand_over, call = begun(cloud, clock, **inputs)
    began = clock.now
    hand_over.wait(call.look(NEW))
    return clock.now - began


@pytest.mark.parametrize(
    ("old", "waits"),
    [
        (says("READY"), True),
        (says("READY", "degraded"), True),
        (says("READY", "draining"), True),
        (says("READY", "failed"), False),
        (says("warmup"), False),
        (says("weights", report={"error": "weights: gone"}), False),
        (AccessError("denied"), False),
        (GONE, True),
    ],
)
def test_what_is_waited_for(old: Answer, waits: bool) -> None:
    """A successor is waited for where something answers that it takes over from, or will again by
    itself; and where nobody can tell for a moment."""
    hand_over, _ = begun(Two(says("warmup"), old=(old,)))

    assert bool(hand_over.names) is waits


def test_a_script_of_ones_own_is_not_waited_for() -> None:
    """It never says that it serves."""
    hand_over, _ = begun(Two(), metadata={"startup-script": "true"})

    assert hand_over.names == ()


def test_it_takes_over_when_it_serves() -> None:
    """It asks for the report as often as Google allows, until the host is READY."""
    assert waited(Two(says("weights"), says("health"), says("READY"))) == pytest.approx(20)


def test_an_outage_is_no_reason_to_take_over() -> None:
    """What answered before is taken to answer still where it cannot be asked: nothing is deleted
    for a successor that nobody has seen serving."""
    cloud = Two(says("weights"), GONE, says("READY"), old=(says("READY"), GONE))

    assert waited(cloud) == pytest.approx(20)


def test_a_word_of_before_is_not_enough() -> None:
    """A successor that was READY before this run has to say so again: its machine may be gone. One
    that becomes READY while it is waited for has just said so."""
    again = (says("READY", "serving", at=1.0), says("READY", "serving", at=61.0))
    assert waited(Two(*again)) == pytest.approx(10)
    assert waited(Two(says("warmup"), again[0])) == pytest.approx(10)

    with pytest.raises(UnreadyError, match="has said nothing since"):
        waited(Two(again[0]))


def test_where_nothing_serves_any_more_there_is_nothing_to_wait_for() -> None:
    """The run of what served may have ended while the request waited in the queue."""
    assert waited(Two(says("weights"), old=(says("READY"), says("READY", "failed")))) == 0


@pytest.mark.parametrize(
    ("host", "message", "after"),
    [
        (says("image", report={"error": "image: not there"}), "failed in phase image", 0),
        (says("health"), "still in phase health after 1h", 3600),
        (GONE, "could not be read for 10m", 600),
        (says("READY", "failed", reason="frozen twice"), "server has failed: frozen twice", 0),
    ],
)
def test_what_does_not_serve_is_kept(host: Answer, message: str, after: float) -> None:
    """The error names the host's reason and what serves on, and the state gets both."""
    clock = FakeTime()

    with pytest.raises(UnreadyError, match=message) as ended:
        waited(Two(host), clock)

    assert clock.now - 1000.0 == pytest.approx(after, abs=70)
    assert ended.value.snapshot.takes_over_from == (OLD,)
    assert str(OLD) in ended.value.hint or isinstance(host, TpuflexError)


def test_a_stop_keeps_both() -> None:
    """Ctrl-C while it waits leaves both slices, and the state says what serves."""
    with pytest.raises(UnreadyError, match="stopped waiting") as ended:
        waited(Two(says("health")), FakeTime(stop_at=1030.0))

    assert ended.value.snapshot.takes_over_from == (OLD,)
    assert replace(NEW, nodes=()) == replace(ended.value.snapshot.name, nodes=())
    assert NODE.endswith(ended.value.snapshot.name.id)
