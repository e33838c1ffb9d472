"""Figure 10: the kill matrix of figure 1 on a naive dynamic provider, for comparison.

Two yardsticks: "10" names its queued resource as Pulumi does (with a random suffix), "10g" uses
one given name, which shows what deterministic names alone achieve. A yardstick has no aim: it fails
only if nothing was injected or if the rig itself did not work.
"""

from __future__ import annotations

from collections.abc import Callable

from reliability.figures.figure import Call, Case, Figure, Result
from reliability.figures.kills import CREATE, kill, matrix
from reliability.invariants import Command
from reliability.naive_rig import PROVIDER, NaiveRig

#: Seconds of the cloud's time until a request is granted or gone: half of the naive provider's
#: pause, so that each command polls twice, however busy the machine is.
QUICK_S = 4.0
#: Long enough for several polls; a deletion is still in progress when the state is refreshed.
WAIT_S, DELETING_S = 30.0, 120.0
#: Which `queuedResources.get` of a long wait is a poll: (command, nth).
POLLS = (("up", 2), ("up", 3), ("down", 2), ("down", 3))
#: Seconds of the cloud's time after which a failed command is tried once more.
_LATER_S = 600.0
#: Real seconds that an engine without its command line may take to end.
_ENDING_S = 60.0


def cases(rig: NaiveRig, _seed: int) -> list[Case]:
    """Role x stage x call of its own `up` and `down`, and the pauses between two polls."""
    rig.reset()
    rig.name(given=False)
    _pace(rig, QUICK_S, QUICK_S)
    return matrix(rig, POLLS)


def judge(rig: NaiveRig, case: Case, *, given: bool) -> Result:
    """Kill; cancel and refresh; the same command again; after `up` also `down`.

    Unlike ours, it gets a second chance: a failed command is tried again ten minutes later.
    """
    result = Result(case.name)
    command = case.facts["command"]
    _kill(rig, case, given)
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", "the kill did not strike")
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


def _kill(rig: NaiveRig, case: Case, given: bool) -> None:
    """Run the case from nothing up to the kill."""
    command, stage = case.facts["command"], case.facts["stage"]
    rig.reset()
    rig.name(given)
    polling = stage == "during-poll"
    waiting, deleting = polling and command == "up", polling and command == "down"
    if command == "down":
        assert rig.run("up").exit_code == 0, rig.said[-1].stderr
    _pace(rig, WAIT_S if waiting else QUICK_S, DELETING_S if deleting else QUICK_S)
    call = Call(case.facts["method_id"], case.facts["nth"])
    # The poll has been answered: the client is in the pause before the next one.
    rule = kill(case.facts["role"], "after-response" if polling else stage, call)
    rig.run(command, rules=[rule])


def _pace(rig: NaiveRig, granted_s: float, gone_s: float) -> None:
    rig.control.capacity(grant_after_s=granted_s, deleting_s=gone_s)


def _patiently(rig: NaiveRig, command: str) -> Command:
    """Run it, and once more later if it fails: that takes no decision by anybody."""
    ended = rig.run(command)
    if ended.exit_code == 0:
        return ended
    rig.control.advance(_LATER_S)
    return rig.run(command)


def _auto_named(rig: NaiveRig, case: Case) -> Result:
    return judge(rig, case, given=False)


def _given_name(rig: NaiveRig, case: Case) -> Result:
    return judge(rig, case, given=True)


def _figure(
    key: str, how: str, judged: Callable[[NaiveRig, Case], Result], *, share: float
) -> Figure:
    return Figure(
        key=key,
        title=f"yardstick: the kills of figure 1 on a naive dynamic provider ({how}), "
        "`pulumi cancel`, `pulumi refresh --clear-pending-creates`, the same command again, `down`",
        rig="naive",
        cases=cases,
        judge=judged,
        share=share,
        spare=20,
        counted=("orphan", "duplicate", "manual"),
        yardstick=True,
    )


AUTO_NAMED = _figure("10", "names with a random end", _auto_named, share=54)
GIVEN_NAME = _figure("10g", "one given name", _given_name, share=9)
