"""Figure 12: each command with what roles.yaml says it needs, and with each permission less."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from embedded_cloud.admission.permission_table import needs_of
from reliability.figures.figure import Case, Figure, Result
from reliability.role_rig import RoleRig
from tpuflex.roles.roles import Command, roles

#: Exit code of AccessError.
_ACCESS = 6
#: A bucket that may not be read may be somebody else's (AlreadyExistsError): names are global.
_BUCKET, _ANOTHERS = "storage.buckets.get", 1
#: A `down` that may not list something has deleted what it knows (IncompleteTeardownError).
_NOT_PROVED = 10
#: What a change of records asks for beside what the table has.
_RECORD_SETS = {
    "up": "dns.resourceRecordSets.create",
    "down": "dns.resourceRecordSets.delete",
}


@dataclass(frozen=True, slots=True)
class Situation:
    """A command, and the stack that it meets.

    Attributes:
        command: whose permissions it gets.
        words: the command line.
        is_up: whether the stack is up.
        tells: whether the command may succeed without a permission, and name it in what it shows.
    """

    command: Command
    words: tuple[str, ...]
    is_up: bool
    tells: bool = False


SITUATIONS: Mapping[str, Situation] = {
    "preview of a new stack": Situation(Command.PREVIEW, ("preview",), is_up=False),
    "preview of a stack that is up": Situation(
        Command.PREVIEW, ("preview",), is_up=True, tells=True
    ),
    "up": Situation(Command.UP, ("up",), is_up=False),
    "up --skip-check permissions": Situation(
        Command.UP, ("up", "--skip-check", "permissions"), is_up=False
    ),
    "up of a stack that is up": Situation(Command.UP, ("up",), is_up=True),
    "weights push": Situation(Command.WEIGHTS_PUSH, ("weights", "push", "model"), is_up=False),
    "secrets ensure": Situation(Command.SECRETS_PUT, ("secrets", "ensure"), is_up=True),
    "status": Situation(Command.STATUS, ("status",), is_up=True),
    "recover": Situation(Command.RECOVER, ("recover",), is_up=True),
    "sweep": Situation(Command.SWEEP, ("sweep",), is_up=True),
    "down": Situation(Command.DOWN, ("down",), is_up=True),
    "doctor": Situation(Command.DOCTOR, ("doctor",), is_up=True, tells=True),
}


def cases(rig: RoleRig, _seed: int) -> list[Case]:
    """Each situation as it is, and once more for each permission that it asks for."""
    found = []
    for name, situation in SITUATIONS.items():
        asked = _asked(rig, situation)
        held = roles().permissions_for(situation.command)
        found.append(Case(name, {"situation": name, "missing": ""}))
        found += [
            Case(f"{name} without {missing}", {"situation": name, "missing": missing})
            for missing in sorted(asked & held)
        ]
    return found


def judge(rig: RoleRig, case: Case) -> Result:
    """With all that the command needs, it succeeds; with one permission less, the error or what is
    shown names it, and the owner's `down` leaves nothing."""
    result = Result(case.name, must_strike=False)
    situation, missing = SITUATIONS[case.facts["situation"]], case.facts["missing"]
    ended = _run(rig, situation, missing)
    said = rig.said[-1].stdout + rig.said[-1].stderr
    if not missing:
        told = f"exits with {ended}: {said[-400:]}"
        result.wanted(ended == 0 or situation.tells, "refused", told)
    else:
        result.struck = 1
        _judge_refusal(result, situation, missing, ended, said)
    if situation.command in (Command.UP, Command.DOWN, Command.WEIGHTS_PUSH) and rig.left():
        down = rig.run("down")
        result.wanted(down.exit_code == 0, "manual", rig.said[-1].stderr)
        result.wanted(not rig.left(), "orphan", f"left: {rig.left()}")
    return result


def _judge_refusal(
    result: Result, situation: Situation, missing: str, ended: int | None, said: str
) -> None:
    """Without ``missing``: AccessError, or a line of what is shown, that names it."""
    optional = {n.permission for n in roles().permissions if situation.command in n.optional}
    if missing in optional and not situation.is_up:
        result.wanted(ended == 0, "refused", f"exits with {ended}: {said[-400:]}")
        return
    codes = {_ACCESS}
    if situation.tells:
        codes.add(0)
    if missing == _BUCKET:
        codes.add(_ANOTHERS)
    if situation.command is Command.DOWN:
        codes.add(_NOT_PROVED)
    result.wanted(ended in codes, "untyped", f"exits with {ended}: {said[-400:]}")
    result.wanted(missing in said, "unnamed", said)


def _run(rig: RoleRig, situation: Situation, missing: str = "") -> int | None:
    _prepare(rig, situation, missing)
    return rig.as_account(*situation.words).exit_code


def _prepare(rig: RoleRig, situation: Situation, missing: str = "") -> None:
    if situation.is_up:
        rig.bring_up()
    else:
        rig.reset()
    rig.enforce()
    rig.grant(roles().permissions_for(situation.command) - {missing})


def _asked(rig: RoleRig, situation: Situation) -> frozenset[str]:
    """The permissions that the situation asks for in a clean run."""
    _prepare(rig, situation)
    first = rig.control.seq()
    rig.as_account(*situation.words)
    methods = {
        str(call["method_id"]) for call in rig.control.history(first) if call["status"] != 403
    }
    asked = {name for method in methods for name in needs_of(method) or ()}
    if "dns.changes.create" in methods:
        asked.add(_RECORD_SETS[situation.command.value])
    return frozenset(asked)


FIGURE = Figure(
    key="12",
    counted=("refused", "unnamed", "untyped", "orphan"),
    title="each command passes with what it needs; one permission less, and the error names it",
    rig=lambda home: RoleRig(home / "project", speed=20),
    cases=cases,
    judge=judge,
    share=120,
    spare=30,
)
