"""Figures 8 and 9: a second `up` that changes nothing; teardown from every state, and twice."""

from __future__ import annotations

from reliability.figures.figure import TPU, Case, Figure, Json, Result
from reliability.rig import SliceRig
from reliability.traces import is_mutating

#: State -> how the stack gets there: capacity rules, and what interrupts `up`.
STATES: dict[str, Json] = {
    "nothing": {},
    "waiting": {"capacity": {"grant_after_s": 1e6}, "interrupted": True},
    "provisioning": {"capacity": {"provisioning_s": 1e6}, "interrupted": True},
    "active": {"up": True},
    "ended": {"up": True, "advance": 20_000},
    "failed": {"fault": {"kind": "operation-error", "code": 3, "message": "not supported"}},
    "husk": {"fault": {"kind": "operation-error", "code": 8, "message": "GCE_STOCKOUT"}},
}
#: What the settings of one stack may look like.
STACKS: dict[str, Json] = {
    "plain": {},
    "description": {"description": "a slice"},
    "tags": {"tags": ["one", "two"]},
    "network": {"external_ips": True},
    "no labels": {"labels": {}},
    "two zones": {"zones": ["us-east5-a", "us-east5-b"]},
}


def second_up_cases(_rig: SliceRig, _seed: int) -> list[Case]:
    """Each stack of the table."""
    return [Case(f"second up: {name}", {"stack": name}) for name in STACKS]


def second_up(rig: SliceRig, case: Case) -> Result:
    """Up, up: no call that changes; refresh, preview: no change."""
    result = Result(case.name, must_strike=False)
    rig.reset()
    before = dict(rig.arguments)
    rig.arguments = {**before, **STACKS[case.facts["stack"]]}
    try:
        _all_well(rig, result, "up")
        again = _all_well(rig, result, "up")
        calls = [c for c in rig.control.history(again) if is_mutating(c)]
        result.values["mutating"] = len(calls)
        result.wanted(not calls, "mutating", f"a second `up` sent {calls}")
        _all_well(rig, result, "refresh")
        _all_well(rig, result, "preview")
        steps = [line for line in rig.said[-1].stdout.splitlines() if " " in line]
        changes = [s for s in steps if s.split()[0] in ("create", "update", "replace", "delete")]
        result.wanted(not changes, "mutating", f"preview after refresh: {changes}")
    finally:
        rig.arguments = before
    return result


def teardown_cases(_rig: SliceRig, _seed: int) -> list[Case]:
    """Each state, taken down twice."""
    return [Case(f"down twice from {state}", {"state": state}) for state in STATES]


def teardown(rig: SliceRig, case: Case) -> Result:
    """Down, and down again: both end with 0 and nothing is left."""
    result = Result(case.name, must_strike=False)
    rig.reset()
    way = STATES[case.facts["state"]]
    rig.control.capacity(**way.get("capacity", {}))
    if way.get("up"):
        _all_well(rig, result, "up")
    if way.get("interrupted"):
        rig.run("up", rules=[_interrupt()])
        result.struck += rig.struck()
    if "fault" in way:
        where = {"method_id": f"{TPU}queuedResources.create"}
        rig.run("up", rules=[{"where": where, "effect": way["fault"]}])
        result.struck += rig.struck()
    if "advance" in way:
        rig.event()
        rig.control.advance(way["advance"])
    for number in ("first", "second"):
        ended = rig.run("down")
        text = f"the {number} `down` exits with {ended.exit_code}: {rig.said[-1].stderr}"
        result.wanted(ended.exit_code == 0, "manual", text)
        result.found(rig.check(), f"after the {number} `down`")
    return result


def _interrupt() -> Json:
    """One Ctrl-C while it waits."""
    return {
        "where": {"method_id": f"{TPU}queuedResources.get"},
        "nth": 5,
        "stage": "after-response",
        "effect": {"kind": "kill", "roles": ["cli"], "signal": "INT"},
    }


def _all_well(rig: SliceRig, result: Result, word: str) -> int:
    """Run a command that has to end well; gives the history's last line before it."""
    ended = rig.run(word)
    text = f"`{word}` exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(ended.exit_code == 0, "manual", text)
    if word != "preview":
        result.found(rig.check(), f"after `{word}`")
    return ended.first_seq


SECOND_UP = Figure(
    key="8",
    counted=("mutating",),
    title="second `up`: 0 mutating calls; preview after refresh: no changes",
    rig="slice",
    cases=second_up_cases,
    judge=second_up,
    share=12,
    spare=20,
)
TEARDOWN = Figure(
    key="9",
    counted=("manual", "orphan"),
    title="teardown from every state, twice: exit code 0 and nothing left",
    rig="slice",
    cases=teardown_cases,
    judge=teardown,
    share=12,
    spare=14,
)
