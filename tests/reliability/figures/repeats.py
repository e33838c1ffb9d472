"""Figure 8: a second `up` that changes nothing, and a preview that plans nothing."""

from __future__ import annotations

from reliability.figures.figure import Case, Figure, Json, Result
from reliability.rig import SliceRig
from reliability.traces import is_mutating

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
    title="second `up`: 0 mutating calls; preview after refresh: no changes",
    rig="slice",
    cases=second_up_cases,
    judge=second_up,
    share=12,
    spare=20,
)
