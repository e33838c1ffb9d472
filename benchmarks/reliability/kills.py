"""Figures 1, 1s and 1r: kill -9 at every call of `up`, `down` and `recover`, and of a replacement
of the slice; then `recover` and the same command again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reliability import processes
from reliability.cases import (
    ROLES,
    STAGES,
    TPU,
    Call,
    Case,
    Figure,
    Json,
    Result,
    callers,
    kill,
    kill_case,
    kill_of,
)
from reliability.invariants import without_replaced
from reliability.rig import StackRig

#: The embedded cloud's stand-in for the gcp plugin; it is started again when it has died.
GCP = "gcp"
CREATE, DELETE = f"{TPU}queuedResources.create", f"{TPU}queuedResources.delete"
GET = f"{TPU}queuedResources.get"
#: How much faster than real time clocks run; on a strict cloud, a minute must outlast a command.
SPEED, STRICT_SPEED = 10.0, 2.0
#: Long enough for several polls, in seconds of the cloud's time.
_LONG_S = 90.0
#: Which `queuedResources.get` of a long wait is a poll.
_POLLS = (("up", 4), ("down", 3))
_PAUSE = "during-poll"
#: The kill that leaves `recover` something to settle.
BEGUN = {"up": Call(CREATE, 1), "down": Call(DELETE, 1)}
LOST = "after its node was lost"
#: What is replaced: keys of the slice in the stack file.
PROGRAMS: Mapping[str, Json] = {
    "one zone": {},
    "race over two zones": {"zones": ["us-east5-a", "us-east5-b"], "strategy": "race"},
    LOST: {},
}


def stack_rig(home: Path, strict: bool) -> StackRig:
    """The dev stack."""
    return StackRig(home / "project", speed=STRICT_SPEED if strict else SPEED, strict=strict)


def cases(rig: StackRig, _seed: int) -> list[Case]:
    """Role x stage x call of the TPU API, and the pauses between two polls."""
    paused = [
        kill_case(command, role, _PAUSE, Call(GET, nth), {"command": command})
        for command, nth in _POLLS
        for role in ROLES
    ]
    return [*(case for case in _matrix(rig) if _is_tpu(case)), *paused]


def other_cases(rig: StackRig, _seed: int) -> list[Case]:
    """Role x stage x call of every other API."""
    return [case for case in _matrix(rig) if not _is_tpu(case)]


def _is_tpu(case: Case) -> bool:
    return str(case.facts["method_id"]).startswith(TPU)


def _matrix(rig: StackRig) -> list[Case]:
    rig.edit()
    rig.reset()
    return [
        kill_case(command, role, stage, call, {"command": command})
        for command in ("up", "down")
        for call, living in callers(rig, command)
        for role in _meant(call, living)
        for stage in STAGES
    ]


def _meant(call: Call, living: list[str]) -> list[str]:
    """The roles that a kill can hit: the provider for queued resources, otherwise the stand-in."""
    if "engine" not in living:
        return living
    if not call.method_id.startswith(TPU):
        return ["cli", "engine", GCP]
    return ["cli", "engine", *(["provider"] if "provider" in living else [])]


def judge(rig: StackRig, case: Case) -> Result:
    """Kill, recover, the same command again: no orphan, no duplicate, no manual work."""
    result, facts = Result(case.name), case.facts
    command, polling = facts["command"], facts["stage"] == _PAUSE
    rig.edit()
    _stand(rig, command)
    if polling:
        rig.control.capacity(**{"deleting_s" if command == "down" else "grant_after_s": _LONG_S})
    # Its poll has been answered: the client is in the pause before the next one.
    at = {**facts, "stage": "after-response"} if polling else facts
    _killed(rig, result, command, at)
    _settle(rig, result, "recover", command)
    made = [c for c in rig.control.history() if c["method_id"] == CREATE]
    # A request that is sent again with the same id is answered again, not executed again.
    done = len({c["request_id"] for c in made if c.get("committed", c["status"] == 200)})
    asked = 0 if command == "down" else 1
    result.wanted(done == asked, "duplicate", f"{done} queued resources were made, not {asked}")
    return result


def cases_again(rig: StackRig, _seed: int) -> list[Case]:
    """Role x stage x call of `recover`; and of a replacement, where it changes something or asks
    a host what it reports."""
    found: list[Case] = []
    rig.edit()
    for command in BEGUN:
        _begin(rig, command)
        facts: Json = {"begun": command}
        found += _at(f"recover of a killed `{command}`", facts, callers(rig, "recover"))
    for program, more in PROGRAMS.items():
        _replaceable(rig, program)
        rig.edit(slice={**more, "rerun": "again"})
        calls = callers(rig, "up", without=("get", "list"))
        calls = [each for each in calls if each[0].method_id.startswith(TPU)]
        found += _at(f"replacement, {program}", {"program": program}, calls)
    return found


def _at(said: str, facts: Json, calls: list[tuple[Call, list[str]]]) -> list[Case]:
    return [
        kill_case(said, role, stage, call, facts)
        for call, roles in calls
        for role in roles
        for stage in STAGES
    ]


def judge_again(rig: StackRig, case: Case) -> Result:
    """Kill; then `recover` and a command exit with 0, and nothing is left over or duplicated. The
    program of a replacement has changed once more by then."""
    result, facts = Result(case.name), case.facts
    if "begun" in facts:
        rig.edit()
        _begin(rig, facts["begun"])
        _killed(rig, result, "recover", facts)
        _settle(rig, result, "recover", facts["begun"])
        return result
    program = facts["program"]
    _replaceable(rig, program)
    rig.edit(slice={**PROGRAMS[program], "rerun": "again"})
    _killed(rig, result, "up", facts)
    rig.edit(slice={**PROGRAMS[program], "rerun": "once more"})
    _settle(rig, result, "recover", "up", "down")
    return result


def _stand(rig: StackRig, command: str) -> None:
    rig.bring_up() if command == "down" else rig.reset()


def _begin(rig: StackRig, command: str) -> None:
    """Kill ``command`` together with its engine, so that an operation is pending."""
    _stand(rig, command)
    rig.run(command, rules=[kill(BEGUN[command], "after-commit", ["engine"])])
    assert rig.struck() == 1
    # The remaining plugin keeps calling for a moment: the next kill must hit a call of `recover`.
    processes.await_quiet(rig.mark, 10)


def _replaceable(rig: StackRig, program: str) -> None:
    """Have the slice up; or, so that it serves nobody any more, all of it but its node."""
    rig.edit(slice=PROGRAMS[program])
    rig.bring_up()
    if program == LOST:
        for node in rig.control.inventory()["tpu"]["nodes"]:
            rig.control.call("POST", "mishap", {"name": node["name"], "mishap": "lost"})
        rig.event()


def _killed(rig: StackRig, result: Result, command: str, facts: Json) -> None:
    rig.run(command, rules=[kill_of(facts)])
    result.struck = rig.struck()
    # The number of concurrent calls varies: a kill that did not strike shows nothing.
    result.wanted(result.struck > 0, "rig", f"the kill of `{command}` did not strike")


def _settle(rig: StackRig, result: Result, *words: str) -> None:
    for word in words:
        ended = rig.run(word)
        text = f"`{word}` exits with {ended.exit_code}: {rig.said[-1].stderr}"
        result.wanted(ended.exit_code == 0, "manual", text)
        found = rig.check()
        if word == "recover":
            found = without_replaced(found, rig.export())
        result.found(found, f"after `{word}`")


_COMMON: dict[str, Any] = {
    "counted": ("orphan", "duplicate", "manual"),
    "rig": stack_rig,
}
FIGURES = (
    Figure(
        key="1",
        title="kill -9 of cli, engine, provider at every TPU call of `up` and `down` of the dev "
        "stack, `recover`, the same command again",
        cases=cases,
        judge=judge,
        **_COMMON,
    ),
    Figure(
        key="1s",
        title="the same of cli, engine and gcp plugin at every other API call",
        cases=other_cases,
        judge=judge,
        **_COMMON,
    ),
    Figure(
        key="1r",
        title="kill -9 at every API call of `recover`, and at every change and every look at a "
        "host of a replacement of the slice, whose program changes before the next command; "
        "`recover`, the same command again",
        cases=cases_again,
        judge=judge_again,
        **_COMMON,
    ),
)
