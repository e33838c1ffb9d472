"""Figure 14c: kill -9 at every call of an `up` that copies weights, until chips are asked for."""

from __future__ import annotations

from pathlib import Path

from reliability.copy_rig import FAR, NEAR, CopyRig
from reliability.figures.callers import callers
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.power_failures import kill, killed


def cases(rig: CopyRig, _seed: int) -> list[Case]:
    """Stage x call of every API."""
    rig.begin()
    return list(killed("copy", {}, [call for call, _ in callers(rig, "prepare")]))


def judge(rig: CopyRig, case: Case) -> Result:
    """Kill it and type the same command again: no half set verifies meanwhile, and in the end the
    set is there once, where it came from is as it was, and each secret has one version."""
    rig.begin()
    before = rig.found(NEAR)

    def damage() -> list[str]:
        return [*rig.found(FAR).damage, *rig.found(NEAR).damage]

    result = kill(rig, case, ("prepare",), damage)
    ended = rig.run("prepare")
    said = rig.said[-1]
    text = f"again it exits with {ended.exit_code}: {said.stderr}"
    result.wanted(ended.exit_code == 0, "manual", text)
    result.wanted(said.stdout.split()[-1:] == [rig.sha256], "lost", f"would serve {said.stdout}")
    there, here = rig.found(NEAR), rig.found(FAR)
    result.wanted(not there.damage + here.damage, "half", f"{there.damage}{here.damage}")
    result.wanted(here.whole == (rig.sha256,), "lost", f"{FAR} holds {here.whole}")
    result.wanted(there.versions == before.versions, "lost", f"{NEAR} holds {there.versions}")
    result.wanted(len(here.versions) == 3, "duplicate", f"{FAR}: {here.versions}")
    secrets = rig.secret_versions()
    result.wanted(len(secrets) == 1, "duplicate", f"versions of secrets: {secrets}")
    return result


def rig(home: Path) -> CopyRig:
    """The rig of the cases, in a directory of its own."""
    return CopyRig(home / "project", speed=10.0)


FIGURE = Figure(
    key="14c",
    counted=("half", "lost", "duplicate", "manual"),
    title="kill -9 at every API call that `up` makes before it asks for chips, where it copies"
    " weights to another region of the stack; the same command again",
    rig=rig,
    cases=cases,
    judge=judge,
    share=10,
    spare=20,
)
