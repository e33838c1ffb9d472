"""Figure 14: kill -9 at every call of the commands that make, fill and remove a library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from reliability.figures.callers import callers
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.power_failures import kill, killed
from reliability.situation_rig import SituationRig
from tpuflex.boot.places import weights_bucket, weights_prefix
from tpuflex.errors import NotFoundError
from tpuflex.naming import ENDPOINT_NAME, Names
from tpuflex.settings.load import load_stack_file

#: What is there before a command, and the commands that lead to it.
BEFORE: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "nothing": (),
    "pushed": (("weights", "push"),),
    "served": (("weights", "push"), ("up",)),
}
#: The set of the dev stack in an argument.
_SET = "SET"
#: Command -> what is there before it, and how it is typed.
COMMANDS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "weights push": ("nothing", ("weights", "push")),
    "library up": ("nothing", ("library", "up")),
    "weights rm": ("pushed", ("weights", "rm", _SET)),
    "library down": ("pushed", ("library", "down")),
    "down --purge-weights": ("served", ("down", "--purge-weights")),
}
#: These have nothing to do where all of it is gone already, and say so.
_GONE = ("weights rm", "library down")
#: Of the endpoint's own stack, which says so where a command was killed.
_RECOVERED = ("down --purge-weights",)


class LibraryRig(SituationRig):
    """The dev stack with its weights in a library."""

    def __enter__(self) -> Self:
        super().__enter__()
        weights = {"bucket": "library", "source": "model"}
        self.change(lambda config: config["tpuflex:model"].update(weights=weights))
        settings = load_stack_file(self.stack_file).settings
        self.set = weights_prefix(settings.model)
        names = Names(self.project, self.stack, ENDPOINT_NAME)
        self.library = weights_bucket(settings, names)
        return self

    def command(self, words: Any) -> list[str]:
        """The command line with the set's name, and the confirmation given."""
        named = [self.set if word == _SET else word for word in words]
        return super().command([*named, "--yes"] if named[0] != "recover" else named)

    def begin(self, before: str) -> None:
        """Let this be there, and nothing else."""
        self.stand(before, BEFORE[before])


def cases(rig: LibraryRig, _seed: int) -> list[Case]:
    """Stage x call of every API, for every command."""
    found: list[Case] = []
    for command, (before, words) in COMMANDS.items():
        rig.begin(before)
        calls = [call for call, _ in callers(rig, *words)]
        found += killed(command, {"command": command}, calls)
    return found


def judge(rig: LibraryRig, case: Case) -> Result:
    """Kill all of it and type the same command again: no half set verifies meanwhile, and in the
    end all is there once, or gone."""
    command = case.facts["command"]
    before, words = COMMANDS[command]
    rig.begin(before)
    result = kill(rig, case, words, lambda: rig.damage([rig.library]))
    if command in _RECOVERED:
        rig.run("recover")
    ended = rig.run(*words)
    codes = (0, NotFoundError.exit_code) if command in _GONE else (0,)
    text = f"`{command}` again exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(ended.exit_code in codes, "manual", text)
    _judge_end(rig, command, result)
    return result


def _judge_end(rig: LibraryRig, command: str, result: Result) -> None:
    names = rig.names()
    buckets = [] if command == "library down" else [rig.library]
    result.wanted(names.pop("buckets", []) == buckets, "duplicate", f"buckets: {rig.names()}")
    keys = [len(names.pop(kind, [])) for kind in ("secrets", "versions")]
    result.wanted(keys == [len(buckets)] * 2, "duplicate", f"secrets, versions: {keys}")
    objects = rig.objects(rig.library)
    if buckets:  # It keeps versions of what is deleted.
        names.pop("objects", None)
    if command == "weights push":
        sets = rig.bucket(rig.library).list()
        whole = [one.prefix for one in sets if one.manifest is not None]
        result.wanted(whole == [rig.set] and len(sets) == 1, "lost", f"sets: {sets}")
        damage = rig.damage([rig.library])
        result.wanted(not damage, "half", f"in the end: {damage}")
        result.wanted(len(objects) == 3, "duplicate", f"objects: {objects}")
    else:
        result.wanted(not objects, "orphan", f"objects are left: {objects}")
    result.wanted(not names, "orphan", f"left: {names}")


def rig(home: Path) -> LibraryRig:
    """The rig of the cases, in a directory of its own."""
    return LibraryRig(home / "project", speed=10.0)


FIGURE = Figure(
    key="14",
    counted=("half", "lost", "duplicate", "orphan", "manual"),
    title="kill -9 of everything at every API call of `weights push` (which makes the library),"
    " `weights rm`, `library up`, `library down` and `down --purge-weights` (then `recover`);"
    " the same command again",
    rig=rig,
    cases=cases,
    judge=judge,
    share=10,
    spare=60,
)
