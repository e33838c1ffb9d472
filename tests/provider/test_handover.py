"""What a creation waits for that takes over from a slice that serves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from pulumi_plugin.values import Properties
from tests.provider.fakes import (
    INPUTS,
    NAME,
    NODE,
    Answer,
    Cloud,
    FakeTime,
    args,
    missing,
    node,
    queued,
    says,
    scripted,
    sequence,
)
from tpuflex.codes import Code
from tpuflex.errors import AccessError, ApiError, ConflictError, InterruptedByUser, TpuflexError
from tpuflex.provider.call import Call, UnreadyError
from tpuflex.provider.handover import HandOver, await_successor
from tpuflex.provider.stages import TABLE, Action, Event, Stage, row_of
from tpuflex.provider.watch import GO_ON
from tpuflex.queued_resource.name import RequestName

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
        self.old_request: Iterator[Answer] = sequence({})

    def __call__(self, request: Any) -> Answer:
        if "-g0" not in request.path:
            return super().__call__(request)
        if request.path.endswith(":getGuestAttributes"):
            return next(self._old)
        asked = args(queuedResourceId=OLD.id, **BOOTS)
        if "queuedResources" in request.path:
            answer = next(self.old_request)
            return answer or {**queued("ACTIVE", asked), "name": str(OLD)}
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
        (says("warmup"), True),
        (missing("guest attributes"), True),
        (says("weights", report={"error": "weights: gone"}), False),
        (AccessError("denied"), False),
        (GONE, True),
    ],
)
def test_what_is_waited_for(old: Answer, waits: bool) -> None:
    """A successor may be waited for where something answers that it takes over from, or will by
    itself, be it again or once it has booted; and where nobody can tell for a moment."""
    hand_over, _ = begun(Two(says("warmup"), old=(old,)))

    assert bool(hand_over.names) is waits


@pytest.mark.parametrize(
    ("later", "seconds"), [(says("READY"), 10), (says("warmup"), 0), (AccessError("denied"), 10)]
)
def test_what_has_booted_meanwhile_serves(later: Answer, seconds: float) -> None:
    """What boots when its successor is asked for may serve when that runs: only then it counts."""
    cloud = Two(says("weights"), says("READY"), old=(says("warmup"), later))

    assert waited(cloud) == pytest.approx(seconds)


def test_a_script_of_ones_own_is_not_waited_for() -> None:
    """It never says that it serves."""
    hand_over, _ = begun(Two(), metadata={"startup-script": "true"})

    assert hand_over.names == ()


def test_a_single_404_does_not_end_what_serves() -> None:
    """What is not found once, and is there half a second later, is waited for."""
    cloud = Two(says("warmup"))
    cloud.old_request = sequence(missing(str(OLD)), {})

    assert begun(cloud)[0].names == (OLD,)


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
    outage = [GONE] * 30
    assert waited(Two(*outage, *again)) == pytest.approx(310)  # no word is no old word


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
    assert str(OLD) in str(ended.value.hint) or isinstance(host, TpuflexError)


def test_a_stop_keeps_both() -> None:
    """Ctrl-C while it waits leaves both slices, and the state says what serves."""
    with pytest.raises(UnreadyError, match="stopped waiting") as ended:
        waited(Two(says("health")), FakeTime(stop_at=1030.0))

    assert ended.value.snapshot.takes_over_from == (OLD,)
    assert replace(NEW, nodes=()) == replace(ended.value.snapshot.name, nodes=())
    assert NODE.endswith(ended.value.snapshot.name.id)


class Deletable(Two):
    """What is to take over can be deleted."""

    def __call__(self, request: Any) -> Answer:
        if request.method == "DELETE":
            self.request, self.node = sequence(missing(NAME)), sequence(missing(NODE))
        return super().__call__(request)


#: How each event of the state table comes about while a generation boots.
WHILE_IT_BOOTS: dict[Event, tuple[tuple[Answer, ...], float | None]] = {
    Event.READY: ((says("health"), says("READY")), None),
    Event.STOPPED: ((says("health"),), 1030.0),
    Event.UNREADY: ((says("health"),), None),
    Event.BOOT_FAILED: ((says("image", report={"error": "image: not there"}),), None),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("event", WHILE_IT_BOOTS, ids=lambda event: event.name)
def test_the_table_while_it_boots(event: Event, recorded: bool) -> None:
    """A row of the state table says what is deleted, what the state gets, and the code."""
    host, stop = WHILE_IT_BOOTS[event]
    call, script, said = scripted(Deletable(*host), FakeTime(stop_at=stop))
    hand_over = HandOver.begin(call, args(**BOOTS, onBootFailure="delete"), [OLD])
    row = row_of(Stage.BOOTS, event)
    ended: TpuflexError | None = None

    try:
        with hand_over.kept():
            assert hand_over.finish(call.look(NEW), recorded=recorded).takes_over_from == ()
    except TpuflexError as error:
        ended = error

    assert f"{OLD} serves until they do" in said.text  # its hosts run
    assert (ended is None) is (row.action is Action.GO_ON)
    assert script.count("DELETE") == (row.action is Action.DELETE_FAILED)
    if ended is None:
        return
    assert ended.code is row.code
    in_the_state = recorded or row.action is Action.KEEP_BOTH
    assert isinstance(ended, UnreadyError) is in_the_state
    if isinstance(ended, UnreadyError):
        assert ended.snapshot.takes_over_from == (OLD,)
        assert ended.snapshot.gone is (row.action is Action.DELETE_FAILED)


def test_the_table_of_what_boots_is_walked() -> None:
    """No event of a generation that boots is left out above."""
    assert {row.event for row in TABLE if Stage.BOOTS in row.before} == {*WHILE_IT_BOOTS}
    assert row_of(Stage.REQUESTED, Event.RUNS).action is Action.WAIT


def test_a_stop_before_it_waits_keeps_both() -> None:
    """Ctrl-C in the look whether what served still does: what was made is not lost."""

    class Stopped(Two):
        looks = 0

        def __call__(self, request: Any) -> Answer:
            self.looks += "-g0" in request.path and "queuedResources" in request.path
            if self.looks == 2:
                raise InterruptedByUser("stopped")
            return super().__call__(request)

    with pytest.raises(UnreadyError, match="stopped waiting") as ended:
        waited(Stopped(says("READY")))

    assert ended.value.snapshot.takes_over_from == (OLD,)


@pytest.mark.parametrize("nothing", [missing("guest attributes"), {"guestAttributes": []}])
def test_a_host_that_is_silent_once_still_serves(nothing: Answer) -> None:
    """One odd answer about what serves does not end the wait for its successor."""
    old = (says("READY"), nothing, says("READY"))

    assert waited(Two(says("weights"), says("READY"), old=old)) == pytest.approx(10.5)


def test_a_refusal_that_passes_is_no_reason_to_take_over() -> None:
    """What could not be asked when the request was made is asked again when its hosts run: IAM
    changes take minutes."""
    old = (AccessError("denied"), says("READY"))

    assert waited(Two(says("weights"), says("READY"), old=old)) == pytest.approx(10)


def test_what_came_to_serve_later_is_kept_as_well() -> None:
    """Its server had failed when the next slice was asked for, and somebody has rebooted it: the
    state says that it serves, should that one not come to."""
    old = (says("READY", "failed"), says("READY"))
    hand_over, call = begun(Two(says("image", report={"error": "image: not there"}), old=old))
    assert hand_over.names == ()

    with pytest.raises(UnreadyError) as ended, hand_over.kept():
        hand_over.wait(call.look(NEW))

    assert ended.value.snapshot.takes_over_from == (OLD,)
    assert "`tpuflex down`" not in str(ended.value.hint)


def test_who_serves_is_asked_once_more() -> None:
    """The run of what served may have ended while its successor did not come to serve."""
    cloud = Two(says("image", report={"error": "image: not there"}))
    cloud.old_request = sequence({}, {}, missing(str(OLD)))

    with pytest.raises(UnreadyError) as ended:
        waited(cloud)

    assert str(ended.value.hint).startswith("What served has ended meanwhile: nothing serves. ")


def test_giving_up_the_next_one_is_not_advised_by_what_ends_both() -> None:
    """A first request is given up by `down`; of a renewal that would delete what serves."""
    hand_over, call = begun(Two())

    with pytest.raises(UnreadyError) as waits, hand_over.kept():
        raise UnreadyError("not active", snapshot=call.look(NEW), hint=GO_ON, code=Code.WAITING)

    assert str(waits.value.hint) == (
        f"{OLD} serves on, and only the next slice waits: run `up` again to go on waiting."
        " `down` or `destroy` would delete both."
    )


#: The scripted clock begins here.
NOW = 1_800_001_000.0


#: The inputs of what serves.
BEFORE: Properties = {
    **INPUTS,
    "metadata": {"startup-script": "true", "tpuflex-config": "{}"},
    "queuedResourceId": OLD.id,
}


@pytest.mark.parametrize(
    ("successor", "seconds"),
    [
        ((says("READY", "serving", at=NOW - 60),), 0),
        ((says("READY"),), 0),
        ((says("READY", "degraded", at=NOW), says("READY", "serving", at=NOW + 10)), 10),
        ((says("READY", "draining", at=NOW), says("READY", "serving", at=NOW + 10)), 10),
        ((says("READY", "serving", at=NOW - 999), says("READY", "serving", at=NOW)), 10),
    ],
    ids=["serves", "older-script", "degraded", "called-off", "long-silent"],
)
def test_what_serves_is_not_deleted_for_what_may_not(
    successor: tuple[Answer, ...], seconds: float
) -> None:
    """A deletion that an earlier run has left waits until what the state goes on with serves, and
    has said so of late."""
    clock = FakeTime()
    call, _, _ = scripted(Two(*successor[:1], *successor), clock)

    await_successor(call, BEFORE, OLD, NEW)

    assert clock.now - 1000.0 == pytest.approx(seconds)


def test_a_successor_that_is_not_found_for_a_moment_serves_all_the_same() -> None:
    """Its nodes are looked for again, so that its host's word is heard."""
    clock = FakeTime()
    cloud = Two(says("READY", "serving", at=NOW), says("READY", "serving", at=NOW + 60))
    cloud.request = sequence(missing(NAME), missing(NAME), queued("ACTIVE"))
    cloud.node = sequence(missing(NODE), missing(NODE), node(of=args(**BOOTS)))
    call, _, _ = scripted(cloud, clock)

    await_successor(call, BEFORE, OLD, NEW)

    assert clock.now - 1000.0 <= 90


def test_nor_for_what_drains_for_good() -> None:
    """A successor that takes nothing new is no reason to delete what does."""
    call, _, _ = scripted(Two(says("READY", "draining", at=NOW)))

    with pytest.raises(ConflictError, match=r"takes no new requests any more.*is not deleted"):
        await_successor(call, BEFORE, OLD, NEW)


def test_what_serves_is_not_lost_by_a_last_look() -> None:
    """Its host was READY: that it may not be looked at once more is no failure of its creation."""
    cloud = Two(says("health"), says("READY"))
    cloud.request = sequence(queued("ACTIVE"), AccessError("denied"))

    assert waited(cloud) == pytest.approx(10)
