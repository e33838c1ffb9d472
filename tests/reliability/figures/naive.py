"""Figure 10: the kill matrix of figure 1 on a naive dynamic provider, for comparison.

Two yardsticks: "10" names its queued resource as Pulumi does (a random end), "10g" has one name
given, which shows what deterministic names alone bring. A yardstick has no aim: it fails only
if nothing was injected, or if the rig itself did not do what it should.
"""

from __future__ import annotations

from collections.abc import Callable

from reliability.figures.figure import Call, Case, Figure, Json, Result, slice_calls
from reliability.figures.kills import CREATE, GET, ROLES, STAGES, kill
from reliability.invariants import Command
from reliability.naive_rig import PROVIDER, NaiveRig

#: Long enough for several polls (of :data:`reliability.naive_rig.POLL_S`), in seconds of the
#: cloud's time; a deletion is still going on when the state is refreshed after a kill.
WAIT_S, DELETING_S = 15.0, 120.0
#: Which `queuedResources.get` of a long wait is a poll: (command, nth).
POLLS = (("up", 2), ("up", 3), ("down", 2), ("down", 3))
#: After how many seconds of the cloud's time a command that failed is tried once more.
_LATER_S = 600.0
#: Real seconds that an engine without its command line may take to end.
_ENDING_S = 60.0


def cases(rig: NaiveRig, _seed: int) -> list[Case]:
    """Role x stage x call of its own `up` and `down`, and the pauses between two polls."""
    rig.reset()
    rig.name(given=False)
    calls = {command: slice_calls(rig, command) for command in ("up", "down")}
    found = [
        _case(command, role, stage, call)
        for command, made in calls.items()
        for role in ROLES
        for stage in STAGES
        for call in made
    ]
    polls = [
        _case(command, role, "during-poll", Call(GET, nth))
        for command, nth in POLLS
        for role in ROLES
    ]
    return found + polls


def judge(rig: NaiveRig, case: Case, *, given: bool) -> Result:
    """Kill; cancel and refresh; the same command again; after `up` also `down`.

    It is given what ours is not: a command that fails is tried once more ten minutes later.
    """
    result = Result(case.name)
    command, stage = case.facts["command"], case.facts["stage"]
    rig.reset()
    rig.name(given)
    polling = stage == "during-poll"
    if command == "down":
        rig.control.capacity(**({"deleting_s": DELETING_S} if polling else {}))
        assert rig.run("up").exit_code == 0, rig.said[-1].stderr
    elif polling:
        rig.control.capacity(grant_after_s=WAIT_S)
    call = Call(case.facts["method_id"], case.facts["nth"])
    rule = kill(case.facts["role"], "after-response" if polling else stage, call)
    rig.run(command, rules=[rule])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", f"the kill at {call} of `{command}` did not strike")
    result.wanted(rig.await_engine(_ENDING_S), "manual", "the engine goes on without its caller")
    for again in ("recover", command, *(["down"] if command == "up" else [])):
        ended = _patiently(rig, again)
        text = f"`{again}` after the kill exits with {ended.exit_code}: {rig.said[-1].stderr}"
        result.wanted(ended.exit_code == 0, "manual", text)
        result.found(rig.check(), f"after `{again}`")
    made = [c for c in rig.control.history() if c["method_id"] == CREATE]
    done = sum(c.get("committed", c["status"] == 200) for c in made)
    result.wanted(done == 1, "duplicate", f"{done} queued resources were made")
    left = sum(PROVIDER in words for words in rig.said[-1].left)
    result.values["provider processes left running"] = left
    return result


def _patiently(rig: NaiveRig, command: str) -> Command:
    """Run it, and should it fail, once more later: that takes no person's decision."""
    ended = rig.run(command)
    if ended.exit_code == 0:
        return ended
    rig.control.advance(_LATER_S)
    return rig.run(command)


def _case(command: str, role: str, stage: str, call: Call) -> Case:
    facts: Json = {"command": command, "role": role, "stage": stage}
    facts |= {"method_id": call.method_id, "nth": call.nth}
    return Case(f"{command}: kill -9 {role} {stage} {call}", facts)


def _auto_named(rig: NaiveRig, case: Case) -> Result:
    return judge(rig, case, given=False)


def _given_name(rig: NaiveRig, case: Case) -> Result:
    return judge(rig, case, given=True)


def _figure(key: str, how: str, judged: Callable[[NaiveRig, Case], Result]) -> Figure:
    return Figure(
        key=key,
        title=f"yardstick: the kills of figure 1 on a naive dynamic provider ({how}), "
        "`pulumi cancel`, `pulumi refresh --clear-pending-creates`, the same command again, `down`",
        rig="naive",
        cases=cases,
        judge=judged,
        share=8,
        spare=20,
        yardstick=True,
    )


AUTO_NAMED = _figure("10", "names with a random end", _auto_named)
GIVEN_NAME = _figure("10g", "one given name", _given_name)
