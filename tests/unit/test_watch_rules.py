"""The rules of the watch over a host: phases and actions, by an injected clock."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch_host import ahead_by
from watch_rules import begin, begin_anew, deadline, has_to_complete, is_due, report, step
from watch_state import (
    CLOSE,
    DEGRADED,
    DRAINING,
    FAILED,
    OPEN,
    RESTART,
    SERVING,
    STOP,
    Container,
    Limits,
    Look,
    Server,
    State,
)

_LIMITS = Limits(drain_s=600, start_s=1800)
_RUN = Limits(drain_s=600, start_s=1800, drains_at=700, ends_at=1000)
_UP = Container("running")
_IDLE = Server(steps=5)
_BUSY = Server(in_flight=2, running=2, steps=5)


def look(at: float, server: Server | None = _IDLE, drain: str = "", **more: object) -> Look:
    """A look at a container that runs, unless said otherwise."""
    found = Look(at, drain, _UP, server)
    return replace(found, **more)  # type: ignore[arg-type]


def after(*looks: Look, limits: Limits = _LIMITS) -> tuple[State, list[str]]:
    """Where a host stands after these looks, and all that was done; where nothing is said for some
    time, it was looked at all the same, and was as before."""
    state, done = begin(0), list[str]()
    for before, each in pairwise((looks[0], *looks)):
        times = range(int(before.at) + 15, int(each.at), 15)
        for seen in (*(replace(before, at=at, completed=None) for at in times), each):
            state, actions = step(state, seen, limits)
            done += actions
    return state, done


def test_tokens_that_come_are_enough() -> None:
    """A server under load whose steps move serves for as long as it likes."""
    looks = [look(at, replace(_BUSY, steps=at)) for at in range(0, 600, 5)]
    assert after(*looks)[0].phase == SERVING
    assert after(*looks)[1] == []


@pytest.mark.parametrize(
    ("server", "at", "frozen"),
    [
        (_BUSY, 64, False),
        (_BUSY, 65, True),
        # Nothing runs: nothing has to move.
        (_IDLE, 600, False),
        (Server(waiting=3, steps=5), 600, False),
        # A server without that metric is not judged by it.
        (Server(running=2), 600, False),
        (None, 64, False),
        (None, 65, True),
    ],
)
def test_frozen_is_a_minute_without_a_token(
    server: Server | None, at: float, *, frozen: bool
) -> None:
    """While requests run, from the last token; of one that does not answer, from its last word."""
    first = look(5, server if server is not None else _IDLE)
    state, done = after(first, *(look(each, server) for each in (20, 35, 50, at)))
    assert (state.phase == DEGRADED, done == [RESTART]) == (frozen, frozen)


@pytest.mark.parametrize(
    ("before", "at", "server"),
    [
        # Docker did not answer, or the machine stood still: it counts as 20 s.
        (_IDLE, 75, None),
        (_BUSY, 75, _BUSY),
        (_BUSY, 9999, _BUSY),
        (_BUSY, 9999, None),
        # What began in the meantime has its own minute.
        (_IDLE, 25, _BUSY),
    ],
)
def test_what_was_not_looked_at_is_not_frozen(
    before: Server, at: float, server: Server | None
) -> None:
    """Of the time between two looks 20 s count; the rest of the minute is waited for, and no more,
    so that looks that are always late find a frozen server, too."""
    state, _ = step(begin(0), look(5, before), _LIMITS)
    state, done = step(state, look(at, server), _LIMITS)
    assert (state.phase, done) == (SERVING, ())
    left = 60 if before == _IDLE and server is not None else 40
    for late in range(20, left, 20):
        state, _ = step(state, look(at + late, server), _LIMITS)
        assert state.phase == SERVING
    assert step(state, look(at + left, server), _LIMITS)[1] == (RESTART,)


def test_a_frozen_server_is_restarted_once() -> None:
    """It serves when it has answered a completion, and not before; frozen again, it is stopped."""
    frozen = (look(5, _BUSY), look(65, _BUSY))
    state, _ = after(*frozen, look(70, None), look(80, _BUSY))
    assert (state.phase, state.restarts) == (DEGRADED, 1)
    served = (*frozen, look(90, _IDLE, completed=True))
    state, _ = after(*served)
    assert (state.phase, state.since, state.reason, state.restarts) == (SERVING, 90, "", 1)
    state, done = after(*served, look(100, _BUSY), look(160, _BUSY))
    assert (state.phase, state.drained, done) == (FAILED, True, [RESTART, STOP])
    assert "again after it was started once more" in state.reason


_STUCK = Server(in_flight=3, steps=5)


@pytest.mark.parametrize(
    ("server", "at", "asked"),
    [
        (_STUCK, 64, False),
        (_STUCK, 65, True),
        (Server(in_flight=1, waiting=1, steps=5), 65, True),
        # Their tokens tell.
        (_BUSY, 64, False),
        (_IDLE, 600, False),
        (replace(_STUCK, steps=None), 600, False),
    ],
)
def test_what_counts_nothing_is_asked(server: Server, at: float, *, asked: bool) -> None:
    """An engine that froze while it was idle counts nothing of what was sent to it since."""
    state, done = after(look(0), look(5, server), look(at, server))
    assert has_to_complete(state, at) is asked
    assert (state.phase, done) == (SERVING, [])


def test_an_engine_that_froze_while_it_was_idle() -> None:
    """It is started once more when it does not answer a completion either; one that does lives, and
    is asked again a minute later."""
    frozen = [look(0), look(5, _STUCK), look(65, _STUCK, completed=False)]
    state, done = after(*frozen)
    assert (state.phase, done) == (DEGRADED, [RESTART])
    assert "nor a completion, while 3 waited for one" in state.reason

    state, done = after(*frozen[:2], look(65, _STUCK, completed=True), look(120, _STUCK))
    assert (state.phase, done) == (SERVING, [])
    assert not has_to_complete(state, 120)
    assert has_to_complete(state, 126)


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

    state, _ = step(state, look(90, _IDLE, container=container, completed=True), _LIMITS)
    assert state.phase == SERVING


def test_a_watch_that_is_started_again_believes_nothing() -> None:
    """The server may be loading, or be gone: a completion tells."""
    state, _ = step(begin_anew(0), look(5), _LIMITS)
    assert (state.phase, state.reason) == (DEGRADED, "the watch of the host was started again")
    assert has_to_complete(state, 5)
    assert step(state, look(10, completed=True), _LIMITS)[0].phase == SERVING


def test_a_server_that_does_not_come_back_has_failed() -> None:
    """Within the time that a boot may take for it."""
    frozen = (look(5, _BUSY), look(65, _BUSY))
    assert after(*frozen, look(65 + 1799, None))[0].phase == DEGRADED
    state, done = after(*frozen, look(65 + 1800, None))
    assert (state.phase, done) == (FAILED, [RESTART, STOP])
    assert "not served again within 1800 s" in state.reason


@pytest.mark.parametrize("times", [(10, 20, 30), (10, 1000, 3600)])
def test_a_third_death_within_an_hour_is_the_last(times: tuple[float, ...]) -> None:
    """Docker starts the container again each time; that it serves in between does not help."""
    looks = [look(0)]
    for count, at in enumerate(times, 1):
        died = Container("running", restarts=count, exit_code=1)
        looks += [look(at, None, container=died), look(at + 5, container=died, completed=True)]
    state, done = after(*looks[:5])
    assert (state.phase, done) == (SERVING, [])
    state, done = after(*looks)
    assert (state.phase, done) == (FAILED, [STOP])
    assert "keeps dying, the last time with status 1" in state.reason


def test_deaths_that_are_far_apart_are_forgotten() -> None:
    """Three in more than an hour are no reason to give up."""
    looks = [look(0)]
    for count, at in enumerate((10, 2000, 3700), 1):
        died = Container("running", restarts=count)
        looks += [look(at, None, container=died), look(at + 5, container=died, completed=True)]
    assert after(*looks)[0].phase == SERVING


def test_a_container_that_was_stopped_does_not_serve() -> None:
    """Whoever stopped it: the host says so."""
    state, done = after(look(0), look(5, None, container=Container("exited", exit_code=137)))
    assert (state.phase, done) == (DEGRADED, [])
    assert "status 137" in state.reason


def test_a_drain_closes_first_and_is_done_after_two_idle_looks() -> None:
    """What was idle before admission was closed may not be so any more."""
    state, done = after(look(0), look(5, drain="x"))
    assert (state.phase, state.drained, done) == (DRAINING, False, [CLOSE])
    state, _ = after(look(0), look(5, drain="x"), look(6, _BUSY, drain="x"))
    assert not state.drained
    state, _ = after(look(0), look(5, drain="x"), look(6, drain="x"))
    assert not state.drained
    state, done = after(look(0), look(5, drain="x"), look(6, drain="x"), look(7, drain="x"))
    assert (state.phase, state.drained, done) == (DRAINING, True, [CLOSE])


@pytest.mark.parametrize(
    ("drain", "limits", "over"),
    [("x", _LIMITS, 605), ("1970-01-01T00:05:00Z", _LIMITS, 300), ("", _RUN, 1000)],
)
def test_what_has_not_ended_in_time_is_cut_off(drain: str, limits: Limits, over: float) -> None:
    """Until the time in the key, for as long as the settings say without one, or to the run's end.
    Meanwhile its tokens come."""
    began = 5 if drain else 700
    ticks = range(began, int(over), 5)
    looks = [look(at, replace(_BUSY, steps=at), drain) for at in ticks]
    state, done = after(*looks, limits=limits)
    assert (state.drained, done) == (False, [CLOSE])
    looks.append(look(over, replace(_BUSY, steps=over), drain))
    state, done = after(*looks, limits=limits)
    assert done == [CLOSE, STOP]
    assert "2 requests had not ended" in state.reason
    assert report(state, over, limits)["cut_off"] == 2
    gone = look(over + 1, None, drain, container=Container("exited"))
    state, done = after(*looks, gone, limits=limits)
    assert (state.phase, state.drained, state.deaths, done) == (DRAINING, True, (), [CLOSE, STOP])


def test_a_server_that_freezes_while_it_drains_is_stopped() -> None:
    """Nothing that it has will end, and nobody needs it again."""
    looks = [look(at, _BUSY, "x") for at in (5, 65)]
    state, done = after(look(0), *looks)
    assert (state.phase, done) == (DRAINING, [CLOSE, STOP])
    assert "no token came" in state.reason


def test_a_server_that_dies_while_it_drains_is_drained() -> None:
    """Its requests are gone; that docker starts it again changes nothing."""
    died = Container("running", restarts=1)
    state, done = after(
        look(0), look(5, _BUSY, "x"), look(6, None, "x", container=died), look(7, None, "x")
    )
    assert (state.phase, state.drained, done) == (DRAINING, True, [CLOSE])


def test_a_drain_that_is_called_off() -> None:
    """Admission opens; a server that was stopped meanwhile is started, and serves when it has
    answered a completion."""
    drained = (look(0), *(look(at, drain="x") for at in (5, 6, 7)))
    assert after(*drained)[0].drained
    state, done = after(*drained, look(8))
    assert (state.phase, state.drained, done) == (SERVING, False, [CLOSE, OPEN])
    cut = (look(0), look(5, _BUSY, "1970-01-01T00:00:01Z"))
    state, done = after(*cut, look(7, None, container=Container("exited")))
    assert (state.phase, done) == (DEGRADED, [CLOSE, STOP, OPEN, RESTART])


def test_a_run_ends_by_the_clouds_clock() -> None:
    """That of a host may be minutes off, and the embedded cloud's runs faster than any."""
    early = (look(50, _BUSY, ahead=649), look(100, replace(_BUSY, steps=6), ahead=649))
    assert after(early[0], limits=_RUN)[0].phase == SERVING
    state, done = after(*early, limits=_RUN)
    assert (state.phase, done) == (DRAINING, [CLOSE])
    assert state.reason == "the run ends at 1970-01-01T00:16:40Z"
    over = look(150, replace(_BUSY, steps=7), ahead=850)
    assert after(*early, over, limits=_RUN)[1] == [CLOSE, STOP]


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
    state, done = after(look(at, _BUSY, "1970-01-01T00:05:06Z", ahead=ahead))
    assert (STOP in done, state.cut_off) == (cut, 2 * cut)


def test_the_end_of_a_run_cannot_be_called_off() -> None:
    """The key comes and goes; the run ends all the same, and the host says when."""
    state, done = after(look(699), look(700), look(705, drain="x"), look(710), limits=_RUN)
    assert (state.phase, state.since, done) == (DRAINING, 700, [CLOSE])
    assert state.reason == "the run ends at 1970-01-01T00:16:40Z"
    said = report(state, 711, _RUN)
    assert (said["drains_at"], said["ends_at"]) == (700, 1000)


def test_what_has_failed_stays_failed() -> None:
    """Nothing but a boot changes it."""
    failed = State(FAILED, 1, "why", drained=True)
    assert step(failed, look(9999, drain="x", completed=True), _RUN) == (failed, ())


@pytest.mark.parametrize(
    ("phase", "late", "due"),
    [(SERVING, 59, False), (SERVING, 60, True), (DRAINING, 6, False), (DRAINING, 7, True)],
)
def test_reports_stay_within_googles_bound(phase: str, late: float, *, due: bool) -> None:
    """Of 10 a minute a drain takes fewer than 9; a change is told at once, whatever it is."""
    state = State(phase, 0)
    assert is_due((state, 0), state, late) is due
    assert is_due(None, state, 0)
    for change in ({"phase": FAILED}, {"drained": True}, {"reason": "x"}, {"restarts": 1}):
        assert is_due((state, 0), replace(state, **change), 0)


def test_what_the_guard_alone_knows_of_runs() -> None:
    """Requests whose first or last bytes are on their way are in no metric of the engine."""
    state = replace(begin(0), server=Server(in_flight=5, running=1, waiting=2))
    said = report(state, 1, _LIMITS)
    assert (said["running"], said["waiting"]) == (3, 2)


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
    assert deadline(text) == at
    if text:
        assert after(look(0), look(5, drain=text))[0].phase == DRAINING


_SERVERS = st.none() | st.builds(
    Server,
    in_flight=st.integers(0, 3),
    running=st.integers(0, 3),
    waiting=st.integers(0, 3),
    steps=st.none() | st.integers(0, 3).map(float),
)
_CONTAINERS = st.builds(
    Container,
    status=st.sampled_from(["running", "restarting", "exited", "absent"]),
    restarts=st.integers(0, 4),
)
_LOOKS = st.tuples(
    st.integers(1, 90),
    st.sampled_from(["", "", "yes", "1970-01-01T00:05:00Z"]),
    _CONTAINERS,
    _SERVERS,
    st.none() | st.booleans(),
)


@given(st.lists(_LOOKS, max_size=40), st.sampled_from([_LIMITS, _RUN]))
def test_whatever_is_seen(
    looks: list[tuple[int, str, Container, Server | None, bool | None]], limits: Limits
) -> None:
    """A host that serves says no reason and the others one; only what is closed or has failed is
    drained; admission is closed exactly while it drains, or as it was when it failed; a frozen
    server is restarted at most once unless a drain was called off; times do not go back."""
    state, is_closed, at, offs = begin(0), False, 0.0, 0
    restarts = 0
    for pause, drain, container, server, completed in looks:
        at += pause
        before = state
        state, actions = step(state, Look(at, drain, container, server, completed), limits)
        assert len(set(actions)) == len(actions)
        is_closed = (is_closed or CLOSE in actions) and OPEN not in actions
        offs += OPEN in actions
        restarts += RESTART in actions
        assert bool(state.reason) == (state.phase != SERVING)
        assert not state.drained or state.phase in (DRAINING, FAILED)
        assert state.phase == FAILED or is_closed == (state.phase == DRAINING)
        assert before.since <= state.since <= at
        assert restarts <= 1 + offs
        assert state.phase != FAILED or before.phase == FAILED or STOP in actions
