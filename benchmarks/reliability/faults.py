"""Figure 3: every named fault at every call must converge or end with a typed error."""

from __future__ import annotations

from pathlib import Path

from embedded_cloud.faults.control import FAULTS, fits
from embedded_cloud.faults.rule import Rule, Where
from reliability.cases import TPU, Call, Case, Figure, Json, Result, numbered
from reliability.invariants import without_replaced
from reliability.servicer_rig import ServicerRig

COMMANDS = ("up", "refresh", "change", "replace", "down")
#: What a command changes in the program first: in place, or so that another slice takes over.
CHANGES: Json = {"change": {"labels": {"team": "changed"}}, "replace": {"rerun": "again"}}
#: How many nodes the request has.
NODES = (1, 3)


def cases(rig: ServicerRig, _seed: int) -> list[Case]:
    """Fault x call of up, refresh, an `up` that changes labels, one that replaces the slice, and
    down; one node and several."""
    found = []
    for nodes in NODES:
        _reset(rig, nodes)
        for command in COMMANDS:
            _prepare(rig, command)
            for call in _calls(rig, _word(command)):
                found += [
                    _case(command, name, call, nodes)
                    for name, fault in FAULTS.items()
                    if fits(fault, call.method_id)
                ]
    return found


def judge(rig: ServicerRig, case: Case) -> Result:
    """One fault: a transient one must converge, any other must end in a typed error."""
    result = Result(case.name)
    command = case.facts["command"]
    _reset(rig, case.facts["nodes"])
    if command != "up":
        rig.run("up")
    _prepare(rig, command)
    try:
        ended = rig.run(_word(command), rules=[_rule(case.facts)])
    except Exception as error:
        result.struck = rig.struck()
        result.wanted(False, "untyped", f"{type(error).__name__}: {error}")
        return result
    result.struck = rig.struck()
    said = "; ".join(rig.engine.said[-1:])
    passes = FAULTS[case.facts["fault"]].passes
    result.wanted(result.struck > 0, "rig", "the fault did not strike")
    text = f"`{command}` ends with {ended.exit_code}: {said}"
    result.wanted(ended.exit_code == 0 or not passes, "not converged", text)
    result.wanted(ended.exit_code == 0 or bool(said.strip()), "untyped", "no text at all")
    found = rig.check()
    if ended.exit_code:
        found = without_replaced(found, rig.engine.export())
    result.found(found, f"after `{command}`")
    again = rig.run(_word(command))
    said = "; ".join(rig.engine.said[-1:])
    text = f"the same command again ends with {again.exit_code}: {said}"
    result.wanted(again.exit_code == 0, "manual", text)
    result.found(rig.check(), "after the same command again")
    return result


def _calls(rig: ServicerRig, command: str) -> list[Call]:
    """The TPU calls that ``command`` makes when nothing goes wrong."""
    done = rig.run(command)
    assert done.exit_code == 0, rig.engine.said
    made = [c for c in rig.direct.cloud.history.entries() if int(str(c["seq"])) > done.first_seq]
    methods = [str(each["method_id"]) for each in made]
    return numbered([method for method in methods if method.startswith(TPU)])


def _reset(rig: ServicerRig, nodes: int) -> None:
    rig.reset(0)
    assert rig.arguments is not None
    if nodes > 1:
        rig.arguments["multiNode"] = {"nodeCount": nodes}


def _prepare(rig: ServicerRig, command: str) -> None:
    if command in CHANGES:
        assert rig.arguments is not None
        rig.event()
        rig.arguments.update(CHANGES[command])


def _word(command: str) -> str:
    return "up" if command in CHANGES else command


def _rule(facts: Json) -> Rule:
    name, method_id = facts["fault"], facts["method_id"]
    return FAULTS[name].rule(Where(method_id=method_id), nth=facts["nth"], rule_id=name)


def _case(command: str, fault: str, call: Call, nodes: int) -> Case:
    facts: Json = {"command": command, "fault": fault, "nodes": nodes}
    facts |= {"method_id": call.method_id, "nth": call.nth}
    several = f" of {nodes} nodes" if nodes > 1 else ""
    return Case(f"{command}{several}: {fault} at {call}", facts)


def servicer_rig(home: Path, strict: bool) -> ServicerRig:
    """The provider by itself."""
    return ServicerRig(home / "emulator", strict=strict)


FIGURE = Figure(
    key="3",
    counted=("untyped", "not converged", "orphan", "duplicate", "away", "cut"),
    title=f"{len(FAULTS)} single faults at every TPU call of up, refresh, change, replace and down "
    "of a slice that serves: converge or a typed error, then the same command again; requests of 1 "
    "and of 3 nodes",
    rig=servicer_rig,
    cases=cases,
    judge=judge,
)
