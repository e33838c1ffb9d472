"""Figure 14d: kill -9 at every call of a copy within the region, of the command and of the
machine's own program. What the Hub and the machine's metadata server are asked changes nothing, and
is no kill point."""

from __future__ import annotations

from pathlib import Path

from reliability.figures.callers import callers
from reliability.figures.figure import Call, Case, Figure, Result
from reliability.figures.kills import ROLES
from reliability.figures.power_failures import STAGES, kill, killed
from reliability.region_rig import MACHINE, PUSH, WAYS, RegionRig
from tpuflex.errors import EngineError

#: What is typed after a kill of the command. `sweep` sees no policies: a role of an account that it
#: has deleted is taken away by the next `--stop`.
ENDINGS = {
    "the same again": (PUSH,),
    "--stop": ((*PUSH, "--stop"),),
    "sweep, --stop": (("sweep", "--yes"), (*PUSH, "--stop")),
}
_AGAIN, _STOP, _SWEEP = ENDINGS
#: What a command says while the stack's state is as a killed engine has left it.
_RECOVER = "If that process is dead: tpuflex recover"
#: Only the machine calls these while it works.
_OBJECTS = "storage.objects."
#: These leave the cloud as it was, and a kill before one is as good as one after it.
_READS = ("get", "list", "aggregatedList", "getIamPolicy", "getGuestAttributes")
_BEFORE, _AFTER = STAGES
#: From here on something of the copy may be there.
_FIRST = "compute.instances.aggregatedList"


def cases(rig: RegionRig, _seed: int) -> list[Case]:
    """Call of every API, of the command, for every way of copying, followed by the same command;
    call that changes something, followed by what removes the copy; and call of the machine's
    program to Cloud Storage, which kills that program alone."""
    found: list[Case] = []
    for way in WAYS:
        rig.begin(way)
        calls = callers(rig, *PUSH, roles=(*ROLES, MACHINE))
        every = [call for call, _ in calls]
        changes = [call for call in every if call.method_id.rpartition(".")[2] not in _READS]
        reads = [call for call in every if call not in changes]
        first = every.index(Call(_FIRST, 1))
        made = [call for call in changes if every.index(call) > first]
        again = {"way": way, "ending": _AGAIN}
        found += killed(f"{way}, then {_AGAIN}", again, changes)
        found += killed(f"{way}, then {_AGAIN}", again, reads, (_BEFORE,))
        for ending in (_STOP, _SWEEP):
            found += killed(f"{way}, then {ending}", {**again, "ending": ending}, made, (_AFTER,))
        its = [call for call, living in calls if MACHINE in living and _OBJECTS in call.method_id]
        found += killed(f"{way}, of the machine's program", {**again, "roles": [MACHINE]}, its)
    return found


def judge(rig: RegionRig, case: Case) -> Result:
    """Kill it and type what its ending says: no half set verifies meanwhile. In the end the set is
    there once, as after a command that nothing killed; or nothing is there of the copy."""
    way, ending = case.facts["way"], case.facts["ending"]
    clean = rig.clean(way) if ending == _AGAIN else {}
    rig.begin(way)
    result = kill(rig, case, PUSH, lambda: rig.damage(rig.buckets))
    if "roles" in case.facts:
        victims = [each for strike in rig.control.strikes() for each in strike["processes"]]
        result.wanted(bool(victims), "rig", "the machine's program was not there")
        code = rig.commands[-1].exit_code
        text = f"it ends with {code}: {rig.said[-1].stderr[-400:]}"
        result.wanted(code == 0, "manual", text)
    for words in ENDINGS[ending]:
        ended = rig.run(*words)
        if ended.exit_code == EngineError.exit_code and _RECOVER in rig.said[-1].stderr:
            result.values["asks for recover first"] = 1
            rig.run("recover")
            ended = rig.run(*words)
        said = f"`{' '.join(words)}` then exits with {ended.exit_code}: "
        result.wanted(ended.exit_code == 0, "manual", said + rig.said[-1].stderr[-400:])
        if words[0] == "sweep":
            result.wanted(not rig.left(), "orphan", f"after sweep: {rig.left()}")
    left = [*rig.left(), *rig.members()]
    result.wanted(not left, "orphan", f"left of the copy: {left}")
    damage = rig.damage(rig.buckets)
    result.wanted(not damage, "half", f"in the end: {damage}")
    if ending == _AGAIN:
        _judge_sets(rig, clean, result)
    return result


def _judge_sets(rig: RegionRig, clean: dict[str, list[str]], result: Result) -> None:
    for bucket in rig.buckets:
        sets = rig.bucket(bucket).list()
        whole = [one.prefix for one in sets if one.manifest is not None]
        text = f"sets in {bucket}: {sets}"
        result.wanted(whole == [rig.set] and len(sets) == 1, "lost", text)
        versions = rig.objects(bucket, versions=True)
        result.wanted(len(versions) == 3, "duplicate", f"objects in {bucket}: {versions}")
    names = rig.names()
    result.wanted(names == clean, "orphan", f"{names} are there, and without a kill {clean}")


def rig(home: Path) -> RegionRig:
    """The rig of the cases, in a directory of its own."""
    return RegionRig(home / "project", speed=10.0)


FIGURE = Figure(
    key="14d",
    counted=("half", "lost", "duplicate", "orphan", "manual"),
    title="kill -9 of everything at every API call of `weights push --from-region`, into the"
    " stack's bucket and into a library of two regions with a token of the user's, and of the"
    " machine's program at every call it makes to Cloud Storage; the same command again (`recover`"
    " first where it says so), or after every call that changes something `--stop`, or `sweep` and"
    " `--stop`",
    rig=rig,
    cases=cases,
    judge=judge,
    share=10,
    spare=60,
)
