"""How a host drains, for a deletion and before the end of its run: rules, by an injected clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from watch_host import ahead_by
from watch_rules import parse_time, report, step
from watch_state import (
    CLOSE,
    DEGRADED,
    DRAINING,
    OPEN,
    RESTART,
    SERVING,
    STOP,
    Container,
    Limits,
    Look,
    Server,
)

from tests.unit.watched_host import BUSY, IDLE, LIMITS, RUN, after, look

#: A server that has requests and is never frozen: it counts no steps.
_MOVES = Server(in_flight=2, running=2)


@pytest.mark.parametrize(
    "before",
    [
        # It died before the drain, and while it drained.
        [look(68, None, container=Container("running", 1))],
        [look(60, drain="yes"), look(68, None, drain="yes", container=Container("running", 1))],
    ],
)
def test_a_drain_that_is_called_off_makes_nothing_serve(before: list[Look]) -> None:
    """A server that had not served again when it was to be drained is degraded afterwards, and
    only a completion says that it serves."""
    container = before[-1].container
    off = [look(70, None, drain="yes", container=container), look(75, None, container=container)]
    state, done = after(look(0), *before, *off)
    assert (state.phase, done[-1]) == (DEGRADED, OPEN)
    assert state.reason == "the drain was called off before the server had served again"

    state, _ = step(state, look(90, IDLE, container=container, completed=True), LIMITS)
    assert state.phase == SERVING


def test_a_drain_closes_first_and_is_done_after_two_idle_looks() -> None:
    """What was idle before admission was closed may not be so any more."""
    state, done = after(look(0), look(5, drain="x"))
    assert (state.phase, state.drained, done) == (DRAINING, False, [CLOSE])
    state, _ = after(look(0), look(5, drain="x"), look(6, BUSY, drain="x"))
    assert not state.drained
    state, _ = after(look(0), look(5, drain="x"), look(6, drain="x"))
    assert not state.drained
    state, done = after(look(0), look(5, drain="x"), look(6, drain="x"), look(7, drain="x"))
    assert (state.phase, state.drained, done) == (DRAINING, True, [CLOSE])


@pytest.mark.parametrize(
    ("drain", "limits", "over"),
    [("x", LIMITS, 605), ("1970-01-01T00:05:00Z", LIMITS, 300), ("", RUN, 1000)],
)
def test_what_has_not_ended_in_time_is_cut_off(drain: str, limits: Limits, over: float) -> None:
    """Until the time in the key, for as long as the settings say without one, or to the run's end.
    Meanwhile its tokens come."""
    began = 5 if drain else 700
    ticks = range(began, int(over), 5)
    looks = [look(at, replace(BUSY, steps=at), drain) for at in ticks]
    state, done = after(*looks, limits=limits)
    assert (state.drained, done) == (False, [CLOSE])
    looks.append(look(over, replace(BUSY, steps=over), drain))
    state, done = after(*looks, limits=limits)
    assert done == [CLOSE, STOP]
    assert "2 requests had not ended" in state.reason
    assert report(state, over, limits)["cut_off"] == 2
    gone = look(over + 1, None, drain, container=Container("exited"))
    state, done = after(*looks, gone, limits=limits)
    assert (state.phase, state.drained, state.deaths, done) == (DRAINING, True, (), [CLOSE, STOP])


def test_a_server_that_freezes_while_it_drains_is_stopped() -> None:
    """Nothing that it has will end, and nobody needs it again."""
    looks = [look(at, BUSY, "x") for at in (5, 65)]
    state, done = after(look(0), *looks)
    assert (state.phase, done) == (DRAINING, [CLOSE, STOP])
    assert "no token came" in state.reason


def test_a_server_that_dies_while_it_drains_is_drained() -> None:
    """Its requests are gone; that docker starts it again changes nothing."""
    died = Container("running", restarts=1)
    state, done = after(
        look(0), look(5, BUSY, "x"), look(6, None, "x", container=died), look(7, None, "x")
    )
    assert (state.phase, state.drained, done) == (DRAINING, True, [CLOSE])


def test_a_drain_that_is_called_off() -> None:
    """Admission opens; a server that was stopped meanwhile is started, and serves when it has
    answered a completion."""
    drained = (look(0), *(look(at, drain="x") for at in (5, 6, 7)))
    assert after(*drained)[0].drained
    state, done = after(*drained, look(8))
    assert (state.phase, state.drained, done) == (SERVING, False, [CLOSE, OPEN])
    cut = (look(0), *(look(at, BUSY, "1970-01-01T00:00:06Z") for at in (5, 6)))
    state, done = after(*cut, look(7, None, container=Container("exited")))
    assert (state.phase, done) == (DEGRADED, [CLOSE, STOP, OPEN, RESTART])


def test_a_run_ends_by_the_clouds_clock() -> None:
    """That of a host may be minutes off, and the embedded cloud's runs faster than any."""
    early = (look(50, BUSY, ahead=649), look(100, replace(BUSY, steps=6), ahead=649))
    assert after(early[0], limits=RUN)[0].phase == SERVING
    state, done = after(*early, limits=RUN)
    assert (state.phase, done) == (DRAINING, [CLOSE])
    assert state.reason == "the run ends at 1970-01-01T00:16:40Z"
    over = look(150, replace(BUSY, steps=7), ahead=850)
    assert after(*early, over, limits=RUN)[1] == [CLOSE, STOP]


@pytest.mark.parametrize(
    ("date", "before", "ahead"),
    [
        ("Thu, 01 Jan 1970 00:01:40 GMT", 0.0, 90.0),
        ("Thu, 01 Jan 1970 00:00:12 GMT", 0.0, 0.0),
        ("Thu, 01 Jan 1970 00:01:40 GMT", 91.0, 91.0),
        ("Thu, 01 Jan 1970 00:00:10 GMT", 90.0, 0.0),
        ("", 5.0, 5.0),
        ("yesterday", 5.0, 5.0),
    ],
)
def test_the_clouds_clock_is_that_of_its_answers(date: str, before: float, ahead: float) -> None:
    """Of whole seconds, what differs by no more than these and a slow answer is no difference."""
    assert ahead_by(date, 10.0, before) == ahead


@pytest.mark.parametrize(
    ("at", "ahead", "cut"),
    [(5, 0, False), (5, 900, False), (306, 0, True), (405, -100, False), (405, -99, True)],
)
def test_a_host_whose_clock_is_fast_cuts_nothing_off(at: float, ahead: float, *, cut: bool) -> None:
    """Whoever waits until the key's time has the cloud's clock; none is cut off before that."""
    looks = [look(each, _MOVES, "1970-01-01T00:05:06Z", ahead=ahead) for each in (5, at)]
    state, done = after(*looks)
    assert (STOP in done, state.cut_off) == (cut, 2 * cut)


def test_a_host_whose_clock_is_fast_takes_no_time_for_one_that_is_over() -> None:
    """By the cloud's clock the key's time is still to come when the host first sees it."""
    looks = [look(each, _MOVES, "1970-01-01T00:05:06Z", ahead=-100) for each in (350, 405)]
    assert after(*looks)[1] == [CLOSE]
    over = look(406, _MOVES, "1970-01-01T00:05:06Z", ahead=-100)
    assert after(*looks, over)[1] == [CLOSE, STOP]


@pytest.mark.parametrize(
    ("key", "drain_s", "over"),
    [
        # Ten minutes by a clock that is eleven minutes slow.
        ("1970-01-01T00:15:39Z", 600, 1600),
        ("1970-01-01T00:16:39Z", 600, 1600),
        ("1970-01-01T00:16:39Z", 0, 1000),
        # What is left of a drain, or all of a short one.
        ("1970-01-01T00:16:40Z", 600, 1000),
        ("1970-01-01T00:16:50Z", 600, 1010),
    ],
)
def test_a_time_that_is_over_when_it_is_first_seen_is_none(
    key: str, drain_s: float, over: float
) -> None:
    """The clock of whoever set it is slow: requests in flight have the time of the settings, from
    when the host saw the key. A short time that is still to come counts as it is."""
    limits = Limits(drain_s=drain_s, start_s=1800)
    before = [look(995, _MOVES)]
    if over > 1000:
        before += [look(each, _MOVES, key) for each in (1000, over - 1)]
    state, done = after(*before, limits=limits)
    assert STOP not in done
    assert ("waited for until" in state.reason) == (over == 1010)
    state, done = after(*before, look(over, _MOVES, key), limits=limits)
    assert (done, state.cut_off) == ([CLOSE, STOP], 2)


def test_a_key_that_is_seen_early_keeps_its_time() -> None:
    """That a deletion goes on which had asked before changes nothing; one that asks anew begins
    anew."""
    key = "1970-01-01T00:01:00Z"
    looks = [look(each, _MOVES, key) for each in (5, 59)]
    assert after(*looks)[1] == [CLOSE]
    assert after(*looks, look(60, _MOVES, key))[1] == [CLOSE, STOP]
    again = [look(59.5, _MOVES), look(61, _MOVES, key)]
    assert after(*looks, *again, look(660, _MOVES, key))[1] == [CLOSE, OPEN, CLOSE]
    assert after(*looks, *again, look(661, _MOVES, key))[1] == [CLOSE, OPEN, CLOSE, STOP]


@pytest.mark.parametrize(
    ("key", "seen", "limits", "over", "why"),
    [
        # It comes while the host drains for the end of its run, and before that drain.
        ("1970-01-01T01:00:00Z", 800, RUN, 1000, ", and its run ends at 1970-01-01T00:16:40Z"),
        ("1970-01-01T01:00:00Z", 650, RUN, 1000, ", and its run ends at 1970-01-01T00:16:40Z"),
        ("x", 800, RUN, 1000, ", and its run ends at 1970-01-01T00:16:40Z"),
        # What is earlier counts, from when it was asked for.
        (
            "1970-01-01T00:15:00Z",
            800,
            RUN,
            900,
            ", which is waited for until 1970-01-01T00:15:00Z",
        ),
        ("x", 800, replace(RUN, drain_s=150), 950, ""),
        ("1970-01-01T00:12:00Z", 800, replace(RUN, drain_s=150), 950, ""),
    ],
)
def test_nothing_is_waited_for_past_the_end_of_the_run(
    key: str, seen: float, limits: Limits, over: float, why: str
) -> None:
    """The machine is gone then: whatever a key says, the server is stopped before, so that its
    clients see the end of their connections."""
    looks = [look(600, _MOVES), look(seen - 1, _MOVES), look(seen, _MOVES, key)]
    state, done = after(*looks, look(over - 1, _MOVES, key), limits=limits)
    assert (done, state.reason) == ([CLOSE], f"the slice is to be deleted{why}")
    state, done = after(*looks, look(over, _MOVES, key), limits=limits)
    assert (done, state.cut_off) == ([CLOSE, STOP], 2)


def test_a_deletion_and_the_end_of_a_run_by_the_clouds_clock() -> None:
    """The run's end is the cloud's; it comes earlier on a host whose clock is behind it."""
    looks = [look(each, _MOVES, "1970-01-01T00:10:00Z", ahead=900.0) for each in (5, 99)]
    state, done = after(*looks, limits=RUN)
    assert (done, state.reason.split(", ")[1:]) == (
        [CLOSE],
        ["and its run ends at 1970-01-01T00:16:40Z"],
    )
    over = look(100, _MOVES, "1970-01-01T00:10:00Z", ahead=900.0)
    assert after(*looks, over, limits=RUN)[1] == [CLOSE, STOP]


def test_the_end_of_a_run_cannot_be_called_off() -> None:
    """The key comes and goes; the run ends all the same, and the host says when."""
    state, done = after(look(699), look(700), look(705, drain="x"), look(710), limits=RUN)
    assert (state.phase, state.since, done) == (DRAINING, 700, [CLOSE])
    assert state.reason == "the run ends at 1970-01-01T00:16:40Z"
    said = report(state, 711, RUN)
    assert (said["drains_at"], said["ends_at"]) == (700, 1000)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("1970-01-01T00:01:00Z", 60),
        ("1970-01-01T00:01:00.123456789Z", 60),
        ("1970-01-01T02:01:00+02:00", 60),
        ("1970-01-01T00:01:00", None),
        ("yes", None),
        ("", None),
        # Ends of the calendar.
        ("9999-12-31T23:59:59Z", 253402300799),
        ("9999-12-31T23:59:59,999999Z", 253402300799),
        ("9999-12-31T23:59:59-12:00", None),
        ("0001-01-01T00:00:00Z", -62135596800),
        ("0001-01-01T00:00:00+01:00", None),
    ],
)
def test_deadlines_are_rfc_3339(text: str, at: float | None) -> None:
    """A time without a zone is none; fractions do not matter. What cannot be shown is no time, but
    a drain all the same."""
    assert parse_time(text) == at
    if text:
        assert after(look(0), look(5, drain=text))[0].phase == DRAINING
