"""How a host ends what runs, for a restart that somebody has asked for: rules, by an injected
clock."""

from __future__ import annotations

from dataclasses import replace

import pytest
from watch_rules import begin, begin_anew, step
from watch_state import (
    CLOSE,
    DRAINING,
    FAILED,
    OPEN,
    RERUN,
    SERVING,
    STOP,
    Container,
    Look,
    State,
)

from tests.unit.watched_host import BUSY, IDLE, LIMITS, RUN, after, look

_NOW, _IN_TIME = "a 0", "a 60"


def asks(at: float, server: object = IDLE, key: str = _IN_TIME, **more: object) -> Look:
    """A look at a host that is asked for a restart."""
    return look(at, server, restart=key, **more)  # type: ignore[arg-type]


def test_what_runs_ends_before_the_server_is_started_again() -> None:
    """Nothing more is admitted, and the script runs again once nothing is in flight any more."""
    state, done = after(look(0), *(asks(at, replace(BUSY, steps=at)) for at in (5, 10, 15)))
    assert (state.phase, done) == (DRAINING, [CLOSE])
    assert state.reason == "the server is started again, as somebody has asked"
    _, done = after(asks(16), asks(17), first=state)
    assert done == [STOP, RERUN]


@pytest.mark.parametrize(("key", "at"), [(_IN_TIME, 65), (_NOW, 5), ("no number", 605)])
def test_what_does_not_end_in_time_is_cut_off(key: str, at: int) -> None:
    """Requests get the time that the key gives, or the stack's own where that is no number."""
    looks = [asks(each, replace(BUSY, steps=each), key) for each in range(5, at + 1, 5)]
    state, done = after(look(0), *looks)
    assert done == [CLOSE, STOP]
    assert (state.cut_off, "2 requests had not ended" in state.reason) == (2, True)
    _, done = after(asks(at + 1, None, key, container=Container("exited")), first=state)
    assert done == [STOP, RERUN]


@pytest.mark.parametrize(
    ("first", "looks", "done"),
    [
        # It loads, and has not answered yet.
        (begin_anew(0), [asks(5, None)], [CLOSE, STOP, RERUN]),
        # It has died.
        (begin(0), [asks(5, None, container=Container("exited"))], [CLOSE, STOP, RERUN]),
        # It was given up for good.
        (State(FAILED, 0), [asks(5, None)], [RERUN]),
    ],
)
def test_what_does_not_serve_is_started_again_at_once(
    first: State, looks: list[Look], done: list[str]
) -> None:
    """Nobody waits for a server that answers nothing: there is nothing to drain."""
    assert after(*looks, first=first)[1] == done


def test_a_frozen_server_is_not_waited_for_to_the_end() -> None:
    """Its requests would not end, however long they were given."""
    state, done = after(look(0), look(5, BUSY), *(asks(at, BUSY, "a 600") for at in (20, 40, 66)))
    assert (state.phase, done) == (DRAINING, [CLOSE, STOP])


@pytest.mark.parametrize(
    ("more", "limits"), [({"drain": "2126-01-01T00:00:00Z"}, LIMITS), ({}, RUN)]
)
def test_what_ends_for_good_is_not_started_again(more: dict[str, str], limits: object) -> None:
    """A slice that is to be deleted, or whose run ends, has no use for another server; nor does the
    restart cut off what the end lets finish."""
    looks = [asks(at, replace(BUSY, steps=at), _NOW, **more) for at in (700, 705)]
    looks += [asks(at, IDLE, _NOW, **more) for at in (710, 715)]
    state, done = after(*looks, limits=limits)  # type: ignore[arg-type]
    assert (state.phase, state.drained, done) == (DRAINING, True, [CLOSE])


def test_a_restart_that_is_called_off_leaves_the_server_alone() -> None:
    """Without the key, before anything was stopped, the host admits requests again."""
    state, _ = after(look(0), asks(5, BUSY))
    state, done = step(state, look(6, BUSY), LIMITS)
    assert (state.phase, done) == (SERVING, (OPEN,))
