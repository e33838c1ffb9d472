"""Figure 1: kill -9 at every call of `up` and `down`, recover, and the same command again."""

from __future__ import annotations

from collections.abc import Sequence

from reliability.figures.figure import TPU, Call, Case, Figure, Json, Result, slice_calls
from reliability.rig import Rig, SliceRig

ROLES = ("cli", "engine", "provider")
#: Before the request takes effect, after it took effect, after its response was sent.
STAGES = ("before-commit", "after-commit", "after-response")
CREATE = f"{TPU}queuedResources.create"
GET = f"{TPU}queuedResources.get"
#: Long enough for several polls, in seconds of the cloud's time.
LONG_S = 90.0
#: Which `queuedResources.get` of a long wait is a poll: (command, nth).
POLLS = (("up", 4), ("up", 5), ("down", 3), ("down", 4))


def kill(role: str, stage: str, call: Call, signal: str = "KILL", **more: object) -> Json:
    """The rule of a kill point."""
    return {
        "where": {"method_id": call.method_id},
        "nth": call.nth,
        "stage": stage,
        "effect": {"kind": "kill", "roles": [role], "signal": signal, **more},
    }


def cases(rig: SliceRig, _seed: int) -> list[Case]:
    """Role x stage x call, for `up` and for `down`; and the pauses between two polls."""
    rig.reset()
    return matrix(rig, POLLS)


def matrix(rig: SliceRig, polls: Sequence[tuple[str, int]]) -> list[Case]:
    """All cases of ``rig`` as it is, from the calls of its own `up` and `down`; ``polls`` are the
    polls (command, nth) after which it is killed in the pause."""
    calls = {command: slice_calls(rig, command) for command in ("up", "down")}
    found = [
        kill_case(command, role, stage, call)
        for command, made in calls.items()
        for role in ROLES
        for stage in STAGES
        for call in made
    ]
    paused = [
        kill_case(command, role, "during-poll", Call(GET, nth))
        for command, nth in polls
        for role in ROLES
    ]
    return found + paused


def judge(rig: SliceRig, case: Case) -> Result:
    """Kill, recover, the same command again: no orphan, no duplicate, no manual work."""
    result = Result(case.name)
    command, stage = case.facts["command"], case.facts["stage"]
    polling = stage == "during-poll"
    if command == "down":
        rig.bring_up()
        rig.control.capacity(**({"deleting_s": LONG_S} if polling else {}))
    else:
        rig.reset()
        rig.control.capacity(**({"grant_after_s": LONG_S} if polling else {}))
    call = Call(case.facts["method_id"], case.facts["nth"])
    # The poll has been answered: the client is in the pause before the next one.
    rule = kill(case.facts["role"], "after-response" if polling else stage, call)
    rig.run(command, rules=[rule])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", f"the kill at {call} of `{command}` did not strike")
    recover(rig, command, result)
    made = [c for c in rig.control.history() if c["method_id"] == CREATE]
    # A request that is sent again with the same id is answered again, not executed again.
    done = len({c["request_id"] for c in made if c.get("committed", c["status"] == 200)})
    asked = 0 if command == "down" else 1
    result.wanted(done == asked, "duplicate", f"{done} queued resources were made, not {asked}")
    return result


def recover(rig: Rig, command: str, result: Result) -> None:
    """`recover` and the same command again after a kill: both must succeed and violate nothing."""
    for again in ("recover", command):
        ended = rig.run(again)
        text = f"`{again}` after the kill exits with {ended.exit_code}: {rig.said[-1].stderr}"
        result.wanted(ended.exit_code == 0, "manual", text)
        result.found(rig.check(), f"after `{again}`")


def kill_case(command: str, role: str, stage: str, call: Call) -> Case:
    """The case of one kill at one call."""
    facts: Json = {"command": command, "role": role, "stage": stage}
    facts |= {"method_id": call.method_id, "nth": call.nth}
    return Case(f"{command}: kill -9 {role} {stage} {call}", facts)


FIGURE = Figure(
    key="1",
    counted=("orphan", "duplicate", "manual", "away", "cut"),
    title="kill -9 of cli, engine, provider at every TPU call of `up` and of a `down` that drains, "
    "`recover`, the same command again",
    rig="slice",
    cases=cases,
    judge=judge,
    share=78,
    spare=14,
)
