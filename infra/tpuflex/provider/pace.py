"""How often a wait asks, and how often it says that it is still there. Seconds throughout."""

from __future__ import annotations

#: Between polls: short at first, because it may be over at once, then ever longer.
_SHORTEST = 0.5
_LONGEST = 30.0
_GROWTH = 0.1
#: Without a line for this long, one is written anyway.
HEARTBEAT = 60.0


def pause_for(age: float, jitter: float) -> float:
    """The pause before the next poll of a wait that has lasted for ``age``.

    Args:
        age: how long it has lasted.
        jitter: a random number in [0, 1), which spreads polls by a fifth to either side.
    """
    return min(_LONGEST, max(_SHORTEST, age * _GROWTH)) * (0.8 + 0.4 * jitter)
