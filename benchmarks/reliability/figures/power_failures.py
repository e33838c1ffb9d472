"""kill -9 of every process of a command, at one of its calls: the cases, and the first command."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from reliability.command_rig import Rig
from reliability.figures.figure import Call, Case, Json, Result
from reliability.figures.kills import ROLES

STAGES = ("before-commit", "after-commit")


def killed(
    name: str, facts: Json, calls: Iterable[Call], stages: Iterable[str] = STAGES
) -> Iterator[Case]:
    """Stage x call of a command that makes ``calls``.

    Args:
        name: the command, for people.
        facts: which command it is, for its figure; with ``roles``, only these are killed.
        calls: what it calls when nothing goes wrong.
        stages: at which points of a call it is killed.
    """
    for call in calls:
        for stage in stages:
            at = {"stage": stage, "method_id": call.method_id, "nth": call.nth}
            yield Case(f"{name}: kill -9 {stage} {call}", {**facts, **at})


def kill(rig: Rig, case: Case, words: Iterable[str], damage: Callable[[], list[str]]) -> Result:
    """Run the command ``words`` and kill it, or the roles that ``case`` names, where that says;
    half a set that verifies by then is a problem.

    Args:
        rig: already in the state in which the command should run.
        case: one of :func:`killed`.
        words: the command.
        damage: what is wrong with sets of weights that could be served.
    """
    result, facts = Result(case.name), case.facts
    call = Call(facts["method_id"], facts["nth"])
    rig.run(*words, rules=[_power_failure(call, facts["stage"], facts.get("roles", ROLES))])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", f"the kill at {call} did not strike")
    found = damage()
    result.wanted(not found, "half", f"after the kill: {found}")
    return result


def _power_failure(call: Call, stage: str, roles: Iterable[str]) -> Json:
    """The rule that kills every process of these roles at once."""
    then = "proceed" if stage == "after-commit" else "reset"
    return {
        "where": {"method_id": call.method_id},
        "nth": call.nth,
        "stage": stage,
        "effect": {"kind": "kill", "roles": list(roles), "then": then},
    }
