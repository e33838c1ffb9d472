"""Figure 2: SIGTERM, one Ctrl-C, and a process that is stopped for two virtual minutes."""

from __future__ import annotations

from datetime import datetime

from reliability.figures.figure import Call, Case, Figure, Result, slice_calls
from reliability.figures.kills import ROLES, kill
from reliability.invariants import without_replaced
from reliability.rig import SliceRig

#: Real seconds within which a command must end when it is asked to.
EXIT_S = 5.0
STOPPED_S = 120.0
#: An `up` that replaces a slice, and the input by which it does.
REPLACE = "replace"
_AGAIN = {"rerun": "again"}


def cases(rig: SliceRig, _seed: int) -> list[Case]:
    """TERM and INT to the command line, STOP to each role, at every call of `up`, of one that
    replaces a slice that serves, and of `down`."""
    rig.reset()
    calls = {"up": slice_calls(rig, "up")}
    with rig.other(_AGAIN):
        calls |= {REPLACE: slice_calls(rig, "up"), "down": slice_calls(rig, "down")}
    sent = [("cli", "TERM"), ("cli", "INT"), *((role, "STOP") for role in ROLES)]
    return [
        Case(
            f"{command}: SIG{signal} {role} at {call}",
            {
                "command": command,
                "role": role,
                "signal": signal,
                "method_id": call.method_id,
                "nth": call.nth,
            },
        )
        for command, made in calls.items()
        for role, signal in sent
        for call in made
    ]


def judge(rig: SliceRig, case: Case) -> Result:
    """Send the signal, then run the same command again; every invariant must hold."""
    if case.facts["command"] == "up":
        rig.reset()
    else:
        rig.bring_up()
    with rig.other(_AGAIN if case.facts["command"] == REPLACE else {}):
        return _signalled(rig, case)


def _signalled(rig: SliceRig, case: Case) -> Result:
    result, facts = Result(case.name), case.facts
    command = "up" if facts["command"] == REPLACE else facts["command"]
    stop = facts["signal"] == "STOP"
    more = {"resume_after_s": STOPPED_S} if stop else {}
    call = Call(facts["method_id"], facts["nth"])
    first = rig.control.seq()
    ended = rig.run(
        command, rules=[kill(facts["role"], "after-commit", call, facts["signal"], **more)]
    )
    now = float(rig.control.call("GET", "clock")["epoch"])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", f"no signal at {call} of `{command}`")
    if not stop:
        strikes = rig.control.strikes(first)
        if strikes:
            at = datetime.fromisoformat(str(strikes[0]["time"])[:26].rstrip("Z") + "+00:00")
            result.values["exit_s"] = round((now - at.timestamp()) / rig.speed, 2)
            late = f"`{command}` ended {result.values['exit_s']} s after the signal"
            result.wanted(result.values["exit_s"] <= EXIT_S, "slow", late)
    result.wanted(ended.exit_code is not None, "manual", f"`{command}` did not end")
    text = f"SIGSTOP: `{command}` exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(not stop or ended.exit_code == 0, "not converged", text)
    result.found(without_replaced(rig.check(), rig.export()), "after the signal")
    again = rig.run(command)
    text = f"`{command}` again exits with {again.exit_code}: {rig.said[-1].stderr}"
    result.wanted(again.exit_code == 0, "manual", text)
    result.found(rig.check(), f"after `{command}` again")
    return result


FIGURE = Figure(
    key="2",
    counted=("slow", "not converged", "orphan", "duplicate", "away", "cut"),
    title="SIGTERM, one Ctrl-C: exit within 5 s; SIGSTOP for 120 virtual seconds: converges; in "
    "`up`, in one that replaces a slice that serves, and in a `down` that drains",
    rig="slice",
    cases=cases,
    judge=judge,
    share=62,
    spare=14,
)
