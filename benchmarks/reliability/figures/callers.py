"""Which of our processes are alive at each call of a command and can be killed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence

from reliability.command_rig import Rig
from reliability.figures.figure import Call, Json
from reliability.figures.kills import ROLES


def callers(
    rig: Rig,
    *words: str,
    without: Collection[str] = (),
    must_succeed: bool = True,
    roles: Sequence[str] = ROLES,
) -> list[tuple[Call, list[str]]]:
    """The calls that a command makes when nothing goes wrong, each with the live roles.

    Args:
        rig: already in the state in which the command should run.
        words: the command.
        without: the last words of methods whose calls are left out.
        must_succeed: whether the rig has failed if the command fails.
        roles: the roles that are looked for.
    """
    first = rig.control.seq()
    done = rig.run(*words, rules=[_look(roles)])
    assert done.exit_code == 0 or not must_succeed, rig.said[-1].stderr
    strikes = rig.control.strikes(first)
    seen: Counter[str] = Counter()
    found = []
    for strike in strikes:
        method_id = str(strike["method_id"])
        seen[method_id] += 1
        living = {str(process["role"]) for process in strike["processes"]}
        if method_id.rpartition(".")[2] not in without:
            living_roles = [role for role in roles if role in living]
            found.append((Call(method_id, seen[method_id]), living_roles))
    return found


def _look(roles: Sequence[str]) -> Json:
    """Stops processes and continues them at once: they do not notice, but the history has it."""
    effect = {"kind": "kill", "roles": list(roles), "signal": "STOP", "resume_after_s": 0}
    return {"nth": 1, "every": 1, "times": 0, "stage": "before-commit", "effect": effect}
