"""Figures 12 and 12e: each command with what roles.yaml says it needs, and one permission less.

12 has the commands that ask no engine to run a program, which take a second; 12e has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from embedded_cloud.strict.permission_table import needs_of
from reliability.cases import Case, Figure, Result
from reliability.rig import Edits
from reliability.role_rig import RoleRig
from tpuflex.doctor.rights import COMMANDS as EXAMINED
from tpuflex.roles.roles import Command, When, roles

#: Without it commands ask each API whether it is enabled: nothing remains unseen.
_ANOTHER_WAY = "serviceusage.services.list"
#: What a change of records asks for beside what the table has.
_RECORD_SETS = {
    Command.UP: "dns.resourceRecordSets.create",
    Command.DOWN: "dns.resourceRecordSets.delete",
    Command.SWEEP_YES: "dns.resourceRecordSets.delete",
}


class Start(StrEnum):
    """What there is of the stack when the command begins."""

    NEW = "new"
    UP = "up"
    LOST = "lost"  #: it is up, and its state is gone
    LIBRARY = "library"  #: nothing, and a library of weights that holds some
    PENDING = "pending"  #: it is up, and its state says of everything that it was begun


#: Exit codes of AccessError, and of IncompleteTeardownError: what cannot be listed is perhaps left.
ACCESS, UNPROVED = 6, 10
#: Of ConflictError: a set of which it cannot be told who uses it is not removed.
CONFLICT = 1
#: Of EngineError, when `recover` could not settle something, and lists each with the reason.
UNSETTLED = 8


@dataclass(frozen=True, slots=True)
class Situation:
    """A command, and the stack that it meets.

    Attributes:
        commands: whose permissions it gets; those of the first one are taken away.
        words: the command line; ``{slice}`` stands for its name, ``{model}`` for the weights, and
            ``{set}`` for these in their bucket.
        start: what there is.
        stack: how the stack file differs from that of the dev stack.
        change: how it differs when the command begins.
        client: whether it runs in the rig's process: it asks no engine to run a program.
        given: what it reads on standard input.
        codes: exit codes that say that it was refused.
        tells: whether it may succeed without a permission, and name it in what it shows.
        only: take away only the permissions of such stacks; the others are another situation's.
        probed: what is asked for only to see whether an API answers: a refusal is an answer.
        examined: take away what ``up`` needs instead, whether this command asks for it or not.
    """

    commands: tuple[Command, ...]
    words: tuple[str, ...]
    start: Start = Start.UP
    stack: Edits = field(default_factory=dict)
    change: Edits = field(default_factory=dict)
    client: bool = False
    given: str = ""
    codes: frozenset[int] = frozenset({ACCESS})
    tells: bool = False
    only: When | None = None
    probed: frozenset[str] = frozenset()
    examined: bool = False

    @property
    def command(self) -> Command:
        """The command that it is about."""
        return self.commands[0]

    @property
    def held(self) -> frozenset[str]:
        """What it needs."""
        return roles().permissions_for(*self.commands)

    @property
    def ablated(self) -> frozenset[str]:
        """What may be taken away from it."""
        needs = [
            need
            for need in roles().permissions
            if self.command in need.commands and self.only in (None, need.when)
        ]
        return frozenset(need.permission for need in needs) - self.probed


_UNCHECKED = ("up", "--skip-check", "permissions")
_INTERNET: Edits = {"network": {"egress": "internet"}}
_CHANGED: Edits = {
    "network": {"allowed_cidrs": ["10.0.0.0/8"]},
    "serving": {"env": {"VLLM_CPU_KVCACHE_SPACE": "2"}},
}
_WATCHED: Edits = {"monitoring": {"alert_policies": True}}
_IN_LIBRARY: Edits = {"model": {"weights": {"bucket": "library"}}}
#: Whatever `doctor` examines, so that it finds nothing amiss but what is taken away.
_DOCTOR = (Command.DOCTOR, *EXAMINED)

SITUATIONS: Mapping[str, Situation] = {
    "preview of a new stack": Situation((Command.PREVIEW,), ("preview",), Start.NEW, tells=True),
    "preview of a stack that is up": Situation((Command.PREVIEW,), ("preview",), tells=True),
    "preview --refresh": Situation(
        (Command.PREVIEW_REFRESH, Command.PREVIEW), ("preview", "--refresh"), tells=True
    ),
    "up": Situation((Command.UP,), _UNCHECKED, Start.NEW),
    "up with egress: internet": Situation(
        (Command.UP,), _UNCHECKED, Start.NEW, stack=_INTERNET, change=_INTERNET, only=When.NAT
    ),
    "up with alert policies": Situation(
        (Command.UP,),
        _UNCHECKED,
        Start.NEW,
        stack=_WATCHED,
        change=_WATCHED,
        only=When.ALERT_POLICIES,
    ),
    "up of a stack that is up": Situation((Command.UP,), ("up",)),
    "up of a changed stack": Situation(
        (Command.UP,), _UNCHECKED, change=_CHANGED, only=When.CHANGED
    ),
    "weights push of a new stack": Situation(
        (Command.WEIGHTS_PUSH,), ("weights", "push", "{model}"), Start.NEW, tells=True
    ),
    "weights push of a stack that is up": Situation(
        (Command.WEIGHTS_PUSH,), ("weights", "push", "{model}"), client=True
    ),
    "weights rm": Situation(
        (Command.WEIGHTS_RM,),
        ("weights", "rm", "{set}", "--yes"),
        Start.LIBRARY,
        stack=_IN_LIBRARY,
        change=_IN_LIBRARY,
        client=True,
        codes=frozenset({ACCESS, CONFLICT}),
    ),
    "secrets ensure of a new stack": Situation(
        (Command.SECRETS_PUT,),
        ("secrets", "ensure"),
        Start.NEW,
        tells=True,
        probed=frozenset({"resourcemanager.projects.get"}),
    ),
    "secrets put of a stack that is up": Situation(
        (Command.SECRETS_PUT,),
        ("secrets", "put", "api-key"),
        client=True,
        given="a-key-of-the-figure",
    ),
    "library up": Situation(
        (Command.LIBRARY_UP,), ("library", "up", "--yes"), Start.NEW, tells=True
    ),
    "library status": Situation(
        (Command.LIBRARY_STATUS,),
        ("library", "status"),
        Start.LIBRARY,
        stack=_IN_LIBRARY,
        client=True,
    ),
    "library down": Situation(
        (Command.LIBRARY_DOWN,),
        ("library", "down", "--yes"),
        Start.LIBRARY,
        stack=_IN_LIBRARY,
        codes=frozenset({ACCESS, UNPROVED}),
    ),
    "status": Situation((Command.STATUS,), ("status",), client=True),
    "recover of a killed up": Situation(
        (Command.RECOVER,),
        ("recover",),
        Start.PENDING,
        codes=frozenset({ACCESS, UNSETTLED}),
        tells=True,
    ),
    "recover --take-over of a lost state": Situation(
        (Command.RECOVER,),
        ("recover", "--take-over"),
        Start.LOST,
        codes=frozenset({ACCESS, UNSETTLED}),
        tells=True,
    ),
    "sweep": Situation((Command.SWEEP,), ("sweep",), client=True, codes=frozenset({UNPROVED})),
    "sweep --yes of a lost state": Situation(
        (Command.SWEEP_YES,),
        ("sweep", "--yes", "--slice", "{slice}"),
        Start.LOST,
        client=True,
        codes=frozenset({UNPROVED}),
    ),
    "down": Situation((Command.DOWN,), ("down",), codes=frozenset({ACCESS, UNPROVED}), tells=True),
    "down with egress: internet": Situation(
        (Command.DOWN,),
        ("down",),
        stack=_INTERNET,
        change=_INTERNET,
        codes=frozenset({ACCESS, UNPROVED}),
        tells=True,
        only=When.NAT,
    ),
    "down with alert policies": Situation(
        (Command.DOWN,),
        ("down",),
        stack=_WATCHED,
        change=_WATCHED,
        codes=frozenset({ACCESS, UNPROVED}),
        tells=True,
        only=When.ALERT_POLICIES,
    ),
    "doctor": Situation(_DOCTOR, ("doctor",), client=True, tells=True),
    "zones": Situation((Command.ZONES,), ("zones",), Start.NEW, client=True, tells=True),
    "doctor of what up needs": Situation(
        (Command.UP, *_DOCTOR), ("doctor",), client=True, examined=True
    ),
}

_ARRANGED: Mapping[Start, Callable[[RoleRig], None]] = {
    Start.LOST: RoleRig.lose_state,
    Start.PENDING: RoleRig.leave_pending,
    Start.LIBRARY: RoleRig.fill_library,
}


def run(rig: RoleRig, situation: Situation, missing: str = "") -> int | None:
    """Run the command of ``situation`` without the permission ``missing``; its exit code."""
    arrange(rig, situation)
    rig.grant(situation.held - {missing})
    words = [_word(rig, word) for word in situation.words]
    if situation.client:
        return rig.client(*words, given=situation.given).exit_code
    return rig.as_account(*words).exit_code


def arrange(rig: RoleRig, situation: Situation) -> None:
    """Let there be what ``situation`` begins with."""
    rig.edit(**situation.stack)
    if situation.start in (Start.NEW, Start.LIBRARY):
        rig.reset()
    else:
        rig.bring_up()
    if situation.start in _ARRANGED:
        _ARRANGED[situation.start](rig)
    rig.edit(**situation.change)
    rig.enforce()


def _word(rig: RoleRig, word: str) -> str:
    if word == "{slice}":
        return rig.slice_name()
    if word == "{set}":
        return rig.set_name()
    return str(rig.home / "model") if word == "{model}" else word


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
    if "dns.changes.create" in methods and situation.command in _RECORD_SETS:
        asked.add(_RECORD_SETS[situation.command])
    return frozenset(asked)


def _rig(home: Path, strict: bool) -> RoleRig:
    return RoleRig(home / "project", speed=20, strict=strict)


_COUNTED = ("refused", "unnamed", "untyped", "orphan")
FIGURES = (
    Figure(
        key="12",
        counted=_COUNTED,
        title="status, doctor, sweep, secrets put, weights push and rm, and library status pass"
        " with what they need; one permission less, and the error names it",
        rig=_rig,
        cases=cases,
        judge=judge,
    ),
    Figure(
        key="12e",
        counted=_COUNTED,
        title="the same of preview, up, down and recover, of library up and down, and of a first"
        " weights push and secrets put",
        rig=_rig,
        cases=engine_cases,
        judge=judge,
    ),
)
