"""Which of our processes are alive at each call of a command and can be killed there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from reliability.command_rig import Rig
from reliability.figures.figure import Call, Json
from reliability.figures.kills import ROLES

#: Stops a process and continues it at once: nothing notices, but the history records it.
_LOOK: Json = {
    "nth": 1,
    "every": 1,
    "times": 0,
    "stage": "before-commit",
    "effect": {"kind": "kill", "roles": list(ROLES), "signal": "STOP", "resume_after_s": 0},
}


def callers(
    rig: Rig, *words: str, without: Collection[str] = (), must_succeed: bool = True
) -> list[tuple[Call, list[str]]]:
    """The calls that a command makes when nothing goes wrong, each with the live roles.

    Args:
        rig: already in the state in which the command should run.
        words: the command.
        without: the last words of methods whose calls are left out.
        must_succeed: whether the rig has failed if the command fails.
    """
    first = rig.control.seq()
    done = rig.run(*words, rules=[_LOOK])
    assert done.exit_code == 0 or not must_succeed, rig.said[-1].stderr
    strikes = rig.control.strikes(first)
    seen: Counter[str] = Counter()
    found = []
    for strike in strikes:
        method_id = str(strike["method_id"])
        seen[method_id] += 1
        living = {str(process["role"]) for process in strike["processes"]}
        if method_id.rpartition(".")[2] not in without:
            roles = [role for role in ROLES if role in living]
            found.append((Call(method_id, seen[method_id]), roles))
    return found
