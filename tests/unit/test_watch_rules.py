"""Whether a server lives, and what is done where it does not: rules, by an injected clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watch_rules import begin, begin_anew, has_to_complete, is_due, report, step
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

from tests.unit.watched_host import BUSY, IDLE, LIMITS, RUN, UP, after, look


def test_tokens_that_come_are_enough() -> None:
    """A server under load whose steps move serves for as long as it likes."""
    looks = [look(at, replace(BUSY, steps=at)) for at in range(0, 600, 5)]
    assert after(*looks)[0].phase == SERVING
    assert after(*looks)[1] == []


@pytest.mark.parametrize(
    ("server", "at", "frozen"),
    [
        (BUSY, 64, False),
        (BUSY, 65, True),
        # Nothing runs: nothing has to move.
        (IDLE, 600, False),
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
    first = look(5, server if server is not None else IDLE)
    state, done = after(first, *(look(each, server) for each in (20, 35, 50, at)))
    assert (state.phase == DEGRADED, done == [RESTART]) == (frozen, frozen)


@pytest.mark.parametrize(
    ("before", "at", "server"),
    [
        # Docker did not answer, or the machine stood still: it counts as 20 s.
        (IDLE, 75, None),
        (BUSY, 75, BUSY),
        (BUSY, 9999, BUSY),
        (BUSY, 9999, None),
        # What began in the meantime has its own minute.
        (IDLE, 25, BUSY),
    ],
)
def test_what_was_not_looked_at_is_not_frozen(
    before: Server, at: float, server: Server | None
) -> None:
    """Of the time between two looks 20 s count; the rest of the minute is waited for, and no more,
    so that looks that are always late find a frozen server, too."""
    state, _ = step(begin(0), look(5, before), LIMITS)
    state, done = step(state, look(at, server), LIMITS)
    assert (state.phase, done) == (SERVING, ())
    left = 60 if before == IDLE and server is not None else 40
    for late in range(20, left, 20):
        state, _ = step(state, look(at + late, server), LIMITS)
        assert state.phase == SERVING
    assert step(state, look(at + left, server), LIMITS)[1] == (RESTART,)


def test_a_frozen_server_is_restarted_once() -> None:
    """It serves when it has answered a completion, and not before; frozen again, it is stopped."""
    frozen = (look(5, BUSY), look(65, BUSY))
    state, _ = after(*frozen, look(70, None), look(80, BUSY))
    assert (state.phase, state.restarts) == (DEGRADED, 1)
    served = (*frozen, look(90, IDLE, completed=True))
    state, _ = after(*served)
    assert (state.phase, state.since, state.reason, state.restarts) == (SERVING, 90, "", 1)
    state, done = after(*served, look(100, BUSY), look(160, BUSY))
    assert (state.phase, state.drained, done) == (FAILED, True, [RESTART, STOP])
    assert "again within an hour" in state.reason


_STUCK = Server(in_flight=3, steps=5)


@pytest.mark.parametrize(
    ("server", "at", "asked"),
    [
        (_STUCK, 64, False),
        (_STUCK, 65, True),
        (Server(in_flight=1, waiting=1, steps=5), 65, True),
        # Their tokens tell.
        (BUSY, 64, False),
        (IDLE, 299, False),
        (IDLE, 300, True),
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


def test_a_watch_that_is_started_again_believes_nothing() -> None:
    """The server may be loading, or be gone: a completion tells."""
    state, _ = step(begin_anew(0), look(5), LIMITS)
    assert (state.phase, state.reason) == (DEGRADED, "the watch of the host was started again")
    assert has_to_complete(state, 5)
    assert step(state, look(10, completed=True), LIMITS)[0].phase == SERVING


_DIED = Container("running", restarts=1)


def _asked_in_vain(looks: int, *, steps: float, began: State, container: Container) -> State:
    """A host whose every look waits for a completion that does not come, while ``steps`` are made
    between two of them."""
    state = began
    for count in range(1, looks + 1):
        server = Server(5256, 256, 5000, steps=count * steps)
        at = began.looked_at + count * 122
        seen = look(at, server, container=container, completed=False)
        state, actions = step(state, seen, LIMITS)
        assert actions == ()
    return state


@pytest.mark.parametrize(
    ("began", "container"),
    [
        (begin_anew(0), UP),
        (after(look(5, BUSY), look(10, None, container=_DIED))[0], _DIED),
    ],
)
def test_tokens_prove_a_server_whose_queue_is_long(began: State, container: Container) -> None:
    """Behind thousands of others no completion of the watch is answered in time: what makes tokens
    from one look to the next serves."""
    assert began.phase == DEGRADED
    state = _asked_in_vain(1, steps=4000, began=began, container=container)
    assert state.phase == DEGRADED
    state = _asked_in_vain(100, steps=4000, began=began, container=container)
    assert (state.phase, state.reason, state.proven) == (SERVING, "", True)


@pytest.mark.parametrize(
    "looks",
    [
        # One look at the new process, whatever the old one had counted.
        [look(10, None, container=_DIED), look(20, replace(BUSY, steps=900), container=_DIED)],
        # It ended between the two.
        [
            look(10, replace(BUSY, steps=6), container=_DIED),
            look(20, replace(BUSY, steps=900), container=Container("running", 2)),
        ],
        # Its count stands still, or is not there.
        [look(at, replace(BUSY, steps=9), container=_DIED) for at in (10, 20, 30)],
        [look(at, replace(BUSY, steps=None), container=_DIED) for at in (10, 20, 30)],
        # Nothing runs.
        [look(at, Server(waiting=2, steps=at), container=_DIED) for at in (10, 20, 30)],
        # The watch started it itself: what it had counted before is no measure.
        [look(65, BUSY), look(70, replace(BUSY, steps=9))],
    ],
)
def test_tokens_of_another_process_prove_nothing(looks: list[Look]) -> None:
    """A process that was started again is judged by its own count, seen twice."""
    state, _ = after(look(5, BUSY), *looks)
    assert (state.phase, state.proven) == (DEGRADED, False)


def test_a_server_that_was_started_once_more_proves_itself_by_tokens() -> None:
    """By two looks at the new process, which counts from 0."""
    looks = [look(65, BUSY), *(look(at, replace(BUSY, steps=at - 69)) for at in (70, 72))]
    state, done = after(look(5, BUSY), *looks)
    assert (state.phase, state.restarts, done) == (SERVING, 1, [RESTART])


def test_tokens_between_deaths_do_not_help() -> None:
    """A server that answers somebody and dies of it has failed with its third death."""
    looks = [look(0)]
    for count in (1, 2, 3):
        died, at = Container("running", restarts=count), count * 100
        looks += [look(at, None, container=died)]
        looks += [look(at + s, replace(BUSY, steps=s), container=died) for s in (5, 7)]
    for deaths, phase in ((1, SERVING), (2, SERVING), (3, FAILED)):
        assert after(*looks[: 1 + 3 * deaths])[0].phase == phase


def test_tokens_while_it_drains_prove_a_server() -> None:
    """Called off, such a drain leaves a host that serves."""
    looks = [look(at, replace(BUSY, steps=at), "x", container=_DIED) for at in (20, 22)]
    state, done = after(look(5), look(10, None, container=_DIED), *looks, look(25, container=_DIED))
    assert (state.phase, done) == (SERVING, [CLOSE, OPEN])


@pytest.mark.parametrize(
    ("looks", "reason"),
    [
        # Its last watch died before docker was told to start it again.
        ([look(5, BUSY), look(65, BUSY)], "no token came for 60 s while requests ran (2)"),
        ([look(5), look(10, None), look(65, None)], "the server has not answered for 60 s"),
        (
            [look(5, _STUCK), look(65, _STUCK, completed=False)],
            "no token came for 60 s, nor a completion, while 3 waited for one",
        ),
    ],
)
def test_what_freezes_before_it_has_served_is_started_once_more(
    looks: list[Look], reason: str
) -> None:
    """Under a watch that was started again as under the first; then it has the time of a boot to
    serve, and no other start."""
    early, done = after(*looks[:-1], replace(looks[-1], at=64), first=begin_anew(0))
    assert (early.since, done) == (0, [])
    state, done = after(*looks, first=begin_anew(0))
    assert (state.phase, state.since, state.restarts, done) == (DEGRADED, 65, 1, [RESTART])
    assert state.reason == f"{reason}; it is started once more"

    again = replace(BUSY, steps=1)
    more = [look(70, None), look(300, again), look(65 + 1799, again)]
    assert after(*more, first=state)[1] == []
    state, done = after(*more, look(65 + 1800, again), first=state)
    assert (state.phase, done) == (FAILED, [STOP])


def test_what_docker_started_again_and_freezes_is_started_once_more() -> None:
    """It had answered, and has not served yet."""
    looks = [look(10, None, container=_DIED), look(100, BUSY, container=_DIED)]
    state, done = after(look(5, BUSY), *looks, look(159, BUSY, container=_DIED))
    assert (state.phase, done) == (DEGRADED, [])
    state, done = after(look(5, BUSY), *looks, look(160, BUSY, container=_DIED))
    assert (state.phase, state.restarts, done) == (DEGRADED, 2, [RESTART])


def test_every_restart_is_counted() -> None:
    """By docker, because it died, and by the watch, because it was frozen: with the last one's time
    and reason, for the report, whose times are by the cloud's clock."""
    died = Container("running", restarts=1, exit_code=137)
    looks = [look(10, None, container=died), look(20, container=died, completed=True)]
    state, _ = after(look(5), *looks)
    assert (state.phase, state.restarts, state.restarted_at) == (SERVING, 1, 10)
    assert state.restarted_why == "it died with status 137"

    state, _ = after(look(25, BUSY, container=died), look(85, BUSY, container=died), first=state)
    document = report(state, 90, LIMITS, ahead=1000)
    told = [document[name] for name in ("restarts", "restarted_at", "restarted_why")]
    assert told == [2, 1085, "no token came for 60 s while requests ran (2)"]
    assert report(begin(0), 0, LIMITS)["restarted_at"] is None


def test_a_server_that_freezes_long_after_it_froze_is_started_again() -> None:
    """A run lasts for days: only one that freezes again within an hour is given up."""
    frozen = (look(5, BUSY), look(65, BUSY), look(90, IDLE, completed=True))
    busy = [look(at, replace(BUSY, steps=at)) for at in range(3000, 3700, 50)]
    for since, phase in ((3540, FAILED), (3660, DEGRADED)):
        stuck = replace(BUSY, steps=since)
        moves = [each for each in busy if each.at < since]
        state, _ = after(*frozen, *moves, look(since, stuck), look(since + 60, stuck))
        assert state.phase == phase


def test_a_server_that_froze_while_it_was_idle_is_noticed() -> None:
    """Nobody waits for a token, so that nothing stands still: it is asked for one now and then. One
    that may have been too late is no reason to start it again, two in a row are."""
    once = [look(0), look(360, completed=False)]
    assert after(*once)[1] == []
    assert after(*once, look(420, completed=True), look(480, completed=False))[1] == []
    # Others had a token meanwhile, or wait for one: it was a queue.
    assert after(*once, look(420, replace(IDLE, steps=6)), look(480, completed=False))[1] == []
    assert after(*once, look(480, BUSY, completed=False))[1] == []
    state, done = after(*once, look(480, completed=False))
    assert (state.phase, done) == (DEGRADED, [RESTART])
    assert state.restarted_why == "no completion came, twice in a row, while nothing else ran"


@pytest.mark.parametrize(
    ("began", "container"),
    [
        (begin_anew(0), UP),
        (after(look(5, BUSY), look(10, None, container=_DIED))[0], _DIED),
        # Somebody had stopped it before the watch's first look, and starts it.
        (after(look(5, None, container=Container("exited")))[0], UP),
        # The watch started it itself, after a drain.
        (after(look(5), look(6, None, "x", container=Container("exited")), look(10, None))[0], UP),
    ],
)
def test_what_loads_is_not_frozen(began: State, container: Container) -> None:
    """A server answers nothing until it has its weights, and then has a minute for its first token,
    whatever it counted before."""
    assert began.phase == DEGRADED
    loads = [look(at, None, container=container) for at in (15, 1000)]
    first = [look(at, BUSY, container=container) for at in (1010, 1069)]
    state, done = after(*loads, *first, first=began)
    assert (state.phase, state.since, done) == (DEGRADED, began.since, [])
    assert after(*loads, *first, look(1070, BUSY, container=container), first=began)[1] == [RESTART]


def test_a_server_that_does_not_come_back_has_failed() -> None:
    """Within the time that a boot may take for it."""
    frozen = (look(5, BUSY), look(65, BUSY))
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


def test_what_has_failed_stays_failed() -> None:
    """Nothing but a boot changes it."""
    failed = State(FAILED, 1, "why", drained=True)
    assert step(failed, look(9999, drain="x", completed=True), RUN) == (failed, ())


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
    said = report(state, 1, LIMITS)
    assert (said["running"], said["waiting"]) == (3, 2)


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


@given(st.lists(_LOOKS, max_size=40), st.sampled_from([LIMITS, RUN]))
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


def test_a_process_that_has_died_runs_nothing() -> None:
    """What it had is lost: nobody needs to wait for that."""
    state, _ = after(look(0, BUSY), look(5, None, container=Container("running", 1, 137)))
    assert state.phase == DEGRADED
    said = report(state, 5, LIMITS)
    assert (said["running"], said["waiting"]) == (0, 0)


def test_times_are_by_the_metadata_servers_clock() -> None:
    """Who reads a report compares its age with Google's time, and with `ends_at`."""
    said = report(begin(100), 160, LIMITS, ahead=7200.0)
    assert (said["since"], said["at"]) == (7300.0, 7360.0)
