"""Figure 1s: the kills of figure 1 at every call of the whole dev stack, through the gcp plugin."""

from __future__ import annotations

from reliability.figures.callers import callers
from reliability.figures.figure import TPU, Call, Case, Figure, Result
from reliability.figures.kills import STAGES, kill, recover
from reliability.rig import StackRig

#: The embedded cloud's stand-in for the gcp plugin; it is restarted when it has died.
GCP = "gcp"


def cases(rig: StackRig, _seed: int) -> list[Case]:
    """Role x stage x call of every API, for `up` and for `down`, with the live roles."""
    rig.reset()
    return [
        Case(
            f"{command}: kill -9 {role} {stage} {call}",
            {
                "command": command,
                "role": role,
                "stage": stage,
                "method_id": call.method_id,
                "nth": call.nth,
            },
        )
        for command in ("up", "down")
        for call, living in callers(rig, command)
        for role in _meant(call, living)
        for stage in STAGES
    ]


def judge(rig: StackRig, case: Case) -> Result:
    """Kill, recover, the same command again: no orphan, no duplicate, no manual work."""
    result, facts = Result(case.name), case.facts
    command = facts["command"]
    if command == "down":
        rig.bring_up()
    else:
        rig.reset()
    call = Call(facts["method_id"], facts["nth"])
    rig.run(command, rules=[kill(facts["role"], facts["stage"], call)])
    result.struck = rig.struck()
    # The number of concurrent calls varies: a kill that did not strike shows nothing.
    result.wanted(result.struck > 0, "rig", f"the kill at {call} of `{command}` did not strike")
    recover(rig, command, result)
    return result


def _meant(call: Call, living: list[str]) -> list[str]:
    """The roles that a kill can hit: the provider for queued resources, otherwise the stand-in."""
    tpu = call.method_id.startswith(TPU)
    if "engine" not in living:
        return living
    others = ["provider"] if tpu and "provider" in living else []
    return ["cli", "engine", *(others if tpu else [GCP])]


FIGURE = Figure(
    key="1s",
    title="kill -9 of cli, engine, provider and gcp plugin at every API call of `up` and `down` of "
    "the dev stack, `recover`, the same command again",
    counted=("orphan", "duplicate", "manual"),
    rig="stack",
    cases=cases,
    judge=judge,
    share=7,
    spare=40,
)
