"""Figures 12 and 12e: each command with what roles.yaml says it needs, and one permission less.

12 has the commands that ask no engine to run a program, which take a second; 12e has the others.
"""

from __future__ import annotations

from pathlib import Path

from embedded_cloud.admission.permission_table import needs_of
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.role_situations import ACCESS, SITUATIONS, Situation, run
from reliability.role_rig import RoleRig
from tpuflex.roles.roles import Command, When, roles

#: Without it commands ask each API whether it is enabled: nothing remains unseen.
_ANOTHER_WAY = "serviceusage.services.list"
#: What a change of records asks for beside what the table has.
_RECORD_SETS = {
    Command.UP: "dns.resourceRecordSets.create",
    Command.DOWN: "dns.resourceRecordSets.delete",
    Command.SWEEP_YES: "dns.resourceRecordSets.delete",
}
#: What a new machine asks for by what it has, beside what the table has.
_NEW_MACHINE = frozenset(
    {
        "compute.instances.setLabels",
        "compute.instances.setMetadata",
        "compute.instances.setServiceAccount",
        "compute.subnetworks.useExternalIp",
        "iam.serviceAccounts.actAs",
    }
)


def cases(rig: RoleRig, _seed: int) -> list[Case]:
    """Each situation without an engine as it is, and once more for each permission it asks for."""
    return _cases(rig, client=True)


def engine_cases(rig: RoleRig, _seed: int) -> list[Case]:
    """The same of each situation with an engine."""
    return _cases(rig, client=False)


def _cases(rig: RoleRig, *, client: bool) -> list[Case]:
    found = []
    for name, situation in SITUATIONS.items():
        if situation.client is not client:
            continue
        found.append(Case(name, {"situation": name, "missing": ""}))
        found += [
            Case(f"{name} without {missing}", {"situation": name, "missing": missing})
            for missing in sorted(_asked(rig, situation))
        ]
    return found


def judge(rig: RoleRig, case: Case) -> Result:
    """With all that the command needs, it succeeds; with one permission less, the error or what is
    shown names it, and nothing is left that the owner's `down` would not find."""
    result = Result(case.name, must_strike=False)
    situation, missing = SITUATIONS[case.facts["situation"]], case.facts["missing"]
    ended = run(rig, situation, missing)
    said = rig.said[-1].stdout + rig.said[-1].stderr
    if not missing:
        result.wanted(ended == 0, "refused", f"exits with {ended}: {said[-400:]}")
    else:
        result.struck = int(missing in _permissions(rig.called(refused=True), situation))
        # Of a new stack there may be nothing that asks for it: a bucket that is not there needs no
        # permission to be not there.
        if result.struck or ended != 0 or situation.examined:
            _judge_refusal(result, situation, missing, ended, said)
    if situation.command in (Command.UP, Command.DOWN, Command.WEIGHTS_PUSH):
        _judge_rest(rig, result)
    return result


def _judge_rest(rig: RoleRig, result: Result) -> None:
    """What was made is in the state; or the owner's `down`, which looks at the cloud, too, finds it
    (the plugin forgets a network whose operation it may not watch)."""
    if not rig.unrecorded():
        return
    down = rig.run("down")
    result.wanted(down.exit_code == 0, "manual", rig.said[-1].stderr)
    result.wanted(not rig.left(), "orphan", f"left: {rig.left()}")


def _judge_refusal(
    result: Result, situation: Situation, missing: str, ended: int | None, said: str
) -> None:
    """Without ``missing``: AccessError, or a line of what is shown, that names it."""
    optional = {n.permission for n in roles().permissions if situation.command in n.optional}
    if missing in optional and ended == 0 and (missing == _ANOTHER_WAY or not situation.tells):
        return
    codes = set(situation.codes)
    if situation.tells:
        codes |= {0, ACCESS}
    result.wanted(ended in codes, "untyped", f"exits with {ended}: {said[-400:]}")
    result.wanted(missing in said, "unnamed", said)


def _asked(rig: RoleRig, situation: Situation) -> frozenset[str]:
    """The permissions that can be taken away: those that it asks for in a clean run."""
    if situation.examined:
        needed = roles().needed(situation.command, (When.PRIVATE,))
        return frozenset(needed)
    run(rig, situation)
    return _permissions(rig.called(refused=False), situation) & situation.ablated


def _permissions(methods: frozenset[str], situation: Situation) -> frozenset[str]:
    """What the methods ask for."""
    asked = {name for method in methods for name in needs_of(method) or ()}
    if "compute.instances.insert" in methods:
        asked |= _NEW_MACHINE
    if "dns.changes.create" in methods and situation.command in _RECORD_SETS:
        asked.add(_RECORD_SETS[situation.command])
    return frozenset(asked)


def _rig(home: Path) -> RoleRig:
    return RoleRig(home / "project", speed=20)


_COUNTED = ("refused", "unnamed", "untyped", "orphan")
FIGURE = Figure(
    key="12",
    counted=_COUNTED,
    title="status, doctor, sweep, secrets put and weights push pass with what they need; one "
    "permission less, and the error names it",
    rig=_rig,
    cases=cases,
    judge=judge,
    share=60,
    spare=10,
)

ENGINE_FIGURE = Figure(
    key="12e",
    counted=_COUNTED,
    title="the same of preview, up, down and recover, and of a first weights push and secrets put",
    rig=_rig,
    cases=engine_cases,
    judge=judge,
    share=120,
    spare=40,
)
