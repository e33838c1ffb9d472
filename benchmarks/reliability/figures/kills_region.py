"""Figure 14d: kill -9 at every call of a copy within the region, of the command and of the
machine's own program."""

from __future__ import annotations

from pathlib import Path

from reliability.figures.callers import callers
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.kills import ROLES
from reliability.figures.power_failures import kill, killed
from reliability.region_rig import MACHINE, PUSH, WAYS, RegionRig

#: What is typed after a kill of the command. `sweep` sees no policies: a role of an account that it
#: has deleted is taken away by the next `--stop`.
ENDINGS = {
    "the same again": (PUSH,),
    "--stop": ((*PUSH, "--stop"),),
    "sweep, --stop": (("sweep", "--yes"), (*PUSH, "--stop")),
}
_AGAIN, _STOP, _SWEEP = ENDINGS
#: After a read the cloud is as it was before: what removes a copy is typed after the others.
_READS = (
    "get",
    "list",
    "aggregatedList",
    "getIamPolicy",
    "getGuestAttributes",
    "info",
    "authCheck",
)
#: From here on something of the copy may be there.
_FIRST = "compute.instances.aggregatedList"


def cases(rig: RegionRig, _seed: int) -> list[Case]:
    """Stage x call of every API, for every way of copying; of the command, followed by the same or
    by what removes the copy; and of the machine's program."""
    found: list[Case] = []
    for way in WAYS:
        rig.begin(way)
        calls = callers(rig, *PUSH, roles=(*ROLES, MACHINE))
        every = [call for call, _ in calls]
        names = [call.method_id for call in every]
        copying = every[names.index(_FIRST) :]
        changes = [call for call in copying if call.method_id.rpartition(".")[2] not in _READS]
        while_copying = [call for call, living in calls if MACHINE in living]
        at = {_AGAIN: every, _STOP: changes, _SWEEP: changes}
        for ending, some in at.items():
            found += killed(f"{way}, then {ending}", {"way": way, "ending": ending}, some)
        facts = {"way": way, "ending": _AGAIN, "roles": [MACHINE]}
        found += killed(f"{way}, of the machine's program", facts, while_copying)
    return found


def judge(rig: RegionRig, case: Case) -> Result:
    """Kill it and type what its ending says: no half set verifies meanwhile. In the end the set is
    there once, as after a command that nothing killed; or nothing is there of the copy."""
    way, ending = case.facts["way"], case.facts["ending"]
    clean = rig.clean(way) if ending == _AGAIN else {}
    rig.begin(way)
    result = kill(rig, case, PUSH, lambda: rig.damage(rig.buckets))
    if "roles" in case.facts:
        code = rig.commands[-1].exit_code
        text = f"it ends with {code}: {rig.said[-1].stderr[-400:]}"
        result.wanted(code == 0, "manual", text)
    for words in ENDINGS[ending]:
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
    " machine's program at every call while it copies; the same command again, or (after calls that"
    " change something) `--stop`, or `sweep` and `--stop`",
    rig=rig,
    cases=cases,
    judge=judge,
    share=10,
    spare=60,
)
