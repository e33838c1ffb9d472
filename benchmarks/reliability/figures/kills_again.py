"""Figure 1r: kill -9 of `recover` itself, and of a replacement whose program then changes."""

from __future__ import annotations

from reliability import processes
from reliability.figures.callers import callers
from reliability.figures.figure import TPU, Call, Case, Figure, Json, Result
from reliability.figures.kills import CREATE, STAGES, kill
from reliability.invariants import without_replaced
from reliability.projects import METADATA
from reliability.rig import SliceRig

DELETE = f"{TPU}queuedResources.delete"
#: The kill that leaves `recover` something to settle: (command, call).
BEGUN = {"up": Call(CREATE, 1), "down": Call(DELETE, 1)}
LOST = "after its node was lost"
#: The program of a replacement, in addition to the rig's own arguments.
PROGRAMS: dict[str, Json] = {
    "one zone": {},
    "race over two zones": {"zones": ["us-east5-a", "us-east5-b"], "strategy": "race"},
    LOST: {},
}


def cases(rig: SliceRig, _seed: int) -> list[Case]:
    """Role x stage x call of `recover`, and after each write of the state; and of a replacement,
    where it changes something or asks a host what it reports."""
    found: list[Case] = []
    for command in BEGUN:
        _begin(rig, command)
        facts: Json = {"kind": "recover", "begun": command}
        said = f"recover of a killed `{command}`"
        for call, roles in callers(rig, "recover"):
            found += _at(said, facts, call, roles)
        writes = int(rig.said[-1].stdout.rpartition("state written: ")[2].split()[0])
        found += [
            Case(f"{said}: kill -9 after write {n}", {**facts, "write": n})
            for n in range(1, writes + 1)
        ]
    for program, more in PROGRAMS.items():
        with rig.other(more):
            rig.bring_up()
            _inflict(rig, program)
            with rig.other({**more, **_script(2)}):
                for call, roles in callers(rig, "up", without=("get", "list")):
                    facts = {"kind": "replace", "program": program}
                    found += _at(f"replacement, {program}", facts, call, roles)
    return found


def judge(rig: SliceRig, case: Case) -> Result:
    """Kill; then `recover` and a command exit with 0, and nothing is left over or duplicated."""
    if case.facts["kind"] == "recover":
        return _recover_killed(rig, case)
    return _replacement_killed(rig, case)


def _recover_killed(rig: SliceRig, case: Case) -> Result:
    result, facts = Result(case.name), case.facts
    _begin(rig, facts["begun"])
    if "write" in facts:
        ended = rig.run("recover", str(facts["write"]))
        result.struck = int(ended.exit_code == -9)
    else:
        rig.run("recover", rules=[_rule(facts)])
        result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", "the kill did not strike")
    _settle(rig, result, "recover", facts["begun"])
    return result


def _replacement_killed(rig: SliceRig, case: Case) -> Result:
    result, facts = Result(case.name), case.facts
    more = PROGRAMS[facts["program"]]
    with rig.other(more):
        rig.bring_up()
    _inflict(rig, facts["program"])
    with rig.other({**more, **_script(2)}):
        rig.run("up", rules=[_rule(facts)])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", "the kill did not strike")
    with rig.other({**more, **_script(3)}):
        _settle(rig, result, "recover", "up", "down")
    return result


def _inflict(rig: SliceRig, program: str) -> None:
    """Make the nodes vanish: a request that serves nobody any more is deleted before it is
    replaced."""
    if program == LOST:
        nodes = rig.control.inventory()["tpu"]["nodes"]
        for node in nodes:
            rig.control.call("POST", "mishap", {"name": node["name"], "mishap": "lost"})
        rig.event()


def _settle(rig: SliceRig, result: Result, *words: str) -> None:
    for word in words:
        ended = rig.run(word)
        text = f"`{word}` exits with {ended.exit_code}: {rig.said[-1].stderr}"
        result.wanted(ended.exit_code == 0, "manual", text)
        found = rig.check()
        if word == "recover":
            found = without_replaced(found, rig.export())
        result.found(found, f"after `{word}`")


def _begin(rig: SliceRig, command: str) -> None:
    """Kill ``command`` together with its engine, so that an operation is pending."""
    if command == "down":
        rig.bring_up()
    else:
        rig.reset()
    rig.run(command, rules=[kill("engine", "after-commit", BEGUN[command])])
    assert rig.struck() == 1
    # The remaining plugin keeps calling for a moment: the next kill must hit a call of `recover`.
    processes.await_quiet(rig.mark, 10)


def _script(number: int) -> Json:
    """An input that cannot be changed in place."""
    return {"metadata": {**METADATA, "startup-script": f"exit 0 # {number}"}}


def _at(said: str, facts: Json, call: Call, roles: list[str]) -> list[Case]:
    return [
        Case(
            f"{said}: kill -9 {role} {stage} {call}",
            {**facts, "role": role, "stage": stage, "method_id": call.method_id, "nth": call.nth},
        )
        for role in roles
        for stage in STAGES
    ]


def _rule(facts: Json) -> Json:
    return kill(facts["role"], facts["stage"], Call(facts["method_id"], facts["nth"]))


FIGURE = Figure(
    key="1r",
    counted=("orphan", "duplicate", "manual", "away", "cut"),
    title="kill -9 at every TPU call of `recover`, after each of its writes, and at every change "
    "and every look at a host of a replacement of a slice that serves, whose program changes "
    "before the next command; `recover`, the same command again",
    rig="slice",
    cases=cases,
    judge=judge,
    share=14,
    spare=20,
)
