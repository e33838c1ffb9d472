"""Looks at a host, one after the other, as the watch makes them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from watch_rules import begin, step
from watch_state import Container, Limits, Look, Server, State

LIMITS = Limits(drain_s=600, start_s=1800)
RUN = Limits(drain_s=600, start_s=1800, drains_at=700, ends_at=1000)
UP = Container("running")
IDLE = Server(steps=5)
BUSY = Server(in_flight=2, running=2, steps=5)


def look(at: float, server: Server | None = IDLE, drain: str = "", **more: object) -> Look:
    """A look at a container that runs, unless said otherwise."""
    found = Look(at, drain, UP, server)
    return replace(found, **more)  # type: ignore[arg-type]


def after(
    *looks: Look, limits: Limits = LIMITS, first: State | None = None
) -> tuple[State, list[str]]:
    """Where a host that stood at ``first`` stands after these looks, and all that was done; where
    nothing is said for some time, it was looked at all the same, and was as before."""
    state, done = first or begin(0), list[str]()
    for before, each in pairwise((looks[0], *looks)):
        times = range(int(before.at) + 15, int(each.at), 15)
        for seen in (*(replace(before, at=at, completed=None) for at in times), each):
            state, actions = step(state, seen, limits)
            done += actions
    return state, done
