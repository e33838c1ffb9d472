"""Figure 3: every named fault at every call must converge or end with a typed error."""

from __future__ import annotations

import random

from embedded_cloud.faults.control import FAULTS, fits
from embedded_cloud.faults.rule import Rule, Where
from reliability.figures.figure import (
    Call,
    Case,
    Figure,
    Json,
    Result,
    servicer_calls,
    slice_calls,
)
from reliability.invariants import without_replaced
from reliability.rig import SliceRig
from reliability.servicer_rig import ServicerRig

#: Exit codes of the error tree, except that of an uncaught traceback.
TYPED = frozenset({1, 3, 4, 5, 6, 7, 8, 9, 10})
#: Faults that keep a real connection silent for 40 real seconds: only tried on the servicer.
SILENT = frozenset({"timeout", "answer-never-comes"})
#: Suffixes of the ids of mutating methods.
CHANGING = (".create", ".delete", ".patch")
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
            for call in servicer_calls(rig, _word(command)):
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
    _reset(rig, case.facts.get("nodes", 1))
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


def process_cases(rig: SliceRig, seed: int) -> list[Case]:
    """Faults of `up` and `down` as processes, except for those that are silent in real time.

    Figure 3 runs every kind at every call on the same servicer, transport and client. A process
    adds the path of an error from the provider through the engine to the exit code and the text,
    which depends on the kind of error and the command, not on the call. So the cases are: every
    kind at a call that changes something (or, if it makes no sense there, at one that it fits),
    and every call with one kind that ends the command. The seed chooses among these, so that
    other seeds try other pairs.
    """
    rig.reset()
    chance = random.Random(seed)  # noqa: S311 - reproducible, not secret
    found: dict[str, Case] = {}
    for command in ("up", "down"):
        calls = slice_calls(rig, command)
        for name, fault in FAULTS.items():
            fitting = [call for call in calls if fits(fault, call.method_id)]
            changing = [call for call in fitting if call.method_id.endswith(CHANGING)]
            if fitting and name not in SILENT:
                case = _case(command, name, chance.choice(changing or fitting))
                found[case.name] = case
        for call in calls:
            ending = [n for n, f in FAULTS.items() if not f.passes and fits(f, call.method_id)]
            case = _case(command, chance.choice(ending), call)
            found[case.name] = case
    return list(found.values())


def process_judge(rig: SliceRig, case: Case) -> Result:
    """Check exit code and text of a real command; the rig itself detects a traceback."""
    result = Result(case.name)
    command = case.facts["command"]
    if command == "down":
        rig.bring_up()
    else:
        rig.reset()
    rule = _rule(case.facts).to_json()
    ended = rig.run(command, rules=[rule])
    result.struck = rig.struck()
    said = rig.said[-1]
    passes = FAULTS[case.facts["fault"]].passes
    result.wanted(result.struck > 0, "rig", "the fault did not strike")
    text = f"`{command}` exits with {ended.exit_code}: {said.stderr}"
    result.wanted(ended.exit_code == 0 or not passes, "not converged", text)
    result.wanted(ended.exit_code == 0 or ended.exit_code in TYPED, "untyped", text)
    result.wanted(ended.exit_code == 0 or bool(said.stderr.strip()), "untyped", "no text")
    result.found(rig.check(), f"after `{command}`")
    again = rig.run(command)
    text = f"the same command again exits with {again.exit_code}: {rig.said[-1].stderr}"
    result.wanted(again.exit_code == 0, "manual", text)
    result.found(rig.check(), "after the same command again")
    return result


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


def _case(command: str, fault: str, call: Call, nodes: int = 1) -> Case:
    facts: Json = {"command": command, "fault": fault, "nodes": nodes}
    facts |= {"method_id": call.method_id, "nth": call.nth}
    several = f" of {nodes} nodes" if nodes > 1 else ""
    return Case(f"{command}{several}: {fault} at {call}", facts)


FIGURE = Figure(
    key="3",
    counted=("untyped", "not converged", "orphan", "duplicate", "away", "cut"),
    title=f"{len(FAULTS)} single faults at every TPU call of up, refresh, change, replace and down "
    "of a slice that serves: converge or a typed error, then the same command again; requests of 1 "
    "and of 3 nodes",
    rig="servicer",
    cases=cases,
    judge=judge,
    share=2,
    spare=1,
)
PROCESS_FIGURE = Figure(
    key="3p",
    counted=("traceback", "untyped", "not converged", "orphan", "duplicate"),
    title="every kind of fault in `up` and `down` as processes, and a fault at every call: exit "
    "code of the table, 0 tracebacks",
    rig="slice",
    cases=process_cases,
    judge=process_judge,
    share=16,
    spare=14,
)
