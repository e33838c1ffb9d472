"""Figures 14 and 14c: kill -9 of every process at every call of the commands that make, fill and
remove a library, and of an `up` that brings its weights to another region."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from reliability.cases import (
    ROLES,
    TPU,
    Call,
    Case,
    Figure,
    Result,
    callers,
    kill,
    kill_case,
)
from reliability.rig import PROJECT, Edits, StackRig
from tpuflex.boot.places import weights_prefix
from tpuflex.errors import NotFoundError
from tpuflex.naming import library_names
from tpuflex.settings.load import load_stack_file
from tpuflex.weights.bucket import WeightsBucket, weights_bucket

_STAGES = ("before-commit", "after-commit")
_PUSH, _COPY, _PURGE = "weights push", "up in another region", "down --purge-weights"
#: The set of the dev stack in an argument.
_SET = "SET"
#: Command -> what leads to the situation before it, and how it is typed.
COMMANDS: Mapping[str, tuple[tuple[tuple[str, ...], ...], tuple[str, ...]]] = {
    _PUSH: ((), ("weights", "push")),
    "library up": ((), ("library", "up")),
    "weights rm": ((("weights", "push"),), ("weights", "rm", _SET)),
    "library down": ((("weights", "push"),), ("library", "down")),
    _PURGE: ((("weights", "push"), ("up",)), ("down", "--purge-weights")),
    # The weights are pushed to the first of its two regions.
    _COPY: ((("library", "up"),), ("up",)),
}
#: These have nothing to do where all of it is gone already, and say so.
_GONE = ("weights rm", "library down")
#: These have an engine, whose command says so where it was killed.
_RECOVERED = (_PURGE, _COPY)
_LIBRARY: Edits = {"model": {"weights": {"bucket": "library", "source": "model"}}}
_NEAR, _FAR = "us-east5", "europe-west4"
_TWO: Edits = {
    **_LIBRARY,
    "slice": {"zones": [f"{_NEAR}-a", f"{_FAR}-a"]},
    "network": {"subnetwork_cidrs": {_FAR: "10.128.16.0/20"}},
}


class LibraryRig(StackRig):
    """The dev stack with its weights in a library."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.edit(**_LIBRARY)
        self.set = weights_prefix(load_stack_file(self.stack_file).settings.model)
        self.library, self.other = (
            library_names(PROJECT).bucket(PROJECT, region) for region in (_NEAR, _FAR)
        )
        return self

    def command(self, words: Any) -> list[str]:
        """The command line with the set's name, and the confirmation given."""
        named = [self.set if word == _SET else word for word in words]
        return super().command([*named, "--yes"] if named[0] != "recover" else named)

    def begin(self, command: str) -> None:
        """Let there be what the command begins with, and nothing else."""
        before, _ = COMMANDS[command]
        self.edit(**(_TWO if command == _COPY else _LIBRARY))
        self.bring_up(*before) if before else self.reset()
        if command == _COPY:
            self.edit(**_LIBRARY)
            self.run_well("weights", "push")
            self.commands.clear()
            self.edit(**_TWO)

    def bucket(self, name: str) -> WeightsBucket:
        """The sets of files in a bucket."""
        return weights_bucket(name, project=PROJECT, environ=self.environ())

    def sets(self, bucket: str) -> list[str]:
        """The sets in a bucket that could be served: those with a manifest."""
        try:
            found = self.bucket(bucket).list()
        except NotFoundError:
            return []
        return [each.prefix for each in found if each.manifest is not None]

    def damage(self) -> list[str]:
        """What is wrong with sets that could be served."""
        return [
            str(problem)
            for bucket in (self.library, self.other)
            for prefix in self.sets(bucket)
            for problem in self.bucket(bucket).verify(prefix).problems
        ]

    def objects(self, bucket: str) -> list[str]:
        """The names of all live objects of a bucket."""
        answer = self.call("GET", f"storage/v1/b/{bucket}/o")
        return [str(each["name"]) for each in answer.json().get("items", [])]

    def there(self) -> dict[str, list[str]]:
        """The names of all that there is, by kind."""
        return {
            kind: [str(each["name"]) for each in listed]
            for kinds in self.control.inventory().values()
            for kind, listed in kinds.items()
            if listed
        }


def cases(rig: LibraryRig, _seed: int) -> list[Case]:
    """Stage x call of every API, for every command of the library."""
    return _cases(rig, [command for command in COMMANDS if command != _COPY])


def copy_cases(rig: LibraryRig, _seed: int) -> list[Case]:
    """The same of an `up` that copies, until it asks for chips."""
    found = _cases(rig, [_COPY])
    first = next(n for n, case in enumerate(found) if f"{TPU}queued" in case.facts["method_id"])
    return found[:first]


def _cases(rig: LibraryRig, commands: Iterable[str]) -> list[Case]:
    found: list[Case] = []
    for command in commands:
        rig.begin(command)
        _, words = COMMANDS[command]
        found += [
            kill_case(command, "", stage, call, {"command": command})
            for call, _ in callers(rig, *words)
            for stage in _STAGES
        ]
    return found


def judge(rig: LibraryRig, case: Case) -> Result:
    """Kill all of it and type the same command again: no half set verifies meanwhile, and in the
    end all is there once, or gone."""
    result, facts = Result(case.name), case.facts
    command, stage = facts["command"], facts["stage"]
    _, words = COMMANDS[command]
    rig.begin(command)
    then = "proceed" if stage == "after-commit" else "reset"
    call = Call(facts["method_id"], facts["nth"])
    rig.run(*words, rules=[kill(call, stage, ROLES, then=then)])
    result.struck = rig.struck()
    result.wanted(result.struck > 0, "rig", f"the kill at {call} did not strike")
    damage = rig.damage()
    result.wanted(not damage, "half", f"after the kill: {damage}")
    if command in _RECOVERED:
        rig.run("recover")
    ended = rig.run(*words)
    if command == _PURGE and "tpuflex weights rm" in rig.said[-1].stderr:
        # The slice that said which set is the stack's own is gone, or the manifest is: what is
        # left may be another owner's, or a push that is under way. So the set is named, in the end.
        rig.run("down")
        ended = rig.run("weights", "rm", _SET)
    codes = (0, NotFoundError.exit_code) if command in _GONE else (0,)
    text = f"`{command}` again exits with {ended.exit_code}: {rig.said[-1].stderr}"
    result.wanted(ended.exit_code in codes, "manual", text)
    damage = rig.damage()
    result.wanted(not damage, "half", f"in the end: {damage}")
    (_judge_copy if command == _COPY else _judge_end)(rig, command, result)
    return result


def _judge_copy(rig: LibraryRig, _command: str, result: Result) -> None:
    for bucket in (rig.library, rig.other):
        sets, objects = rig.sets(bucket), rig.objects(bucket)
        result.wanted(sets == [rig.set], "lost", f"{bucket} has {sets}")
        ours = [name for name in objects if name.startswith(rig.set)]
        result.wanted(len(ours) == 3, "duplicate", f"{bucket} has {objects}")
    result.found(rig.check(), "after `up`")


def _judge_end(rig: LibraryRig, command: str, result: Result) -> None:
    names = rig.there()
    buckets = [] if command == "library down" else [rig.library]
    result.wanted(names.pop("buckets", []) == buckets, "duplicate", f"buckets: {rig.there()}")
    keys = [len(names.pop(kind, [])) for kind in ("secrets", "versions")]
    result.wanted(keys == [len(buckets)] * 2, "duplicate", f"secrets, versions: {keys}")
    objects = rig.objects(rig.library)
    if buckets:  # It keeps versions of what is deleted.
        names.pop("objects", None)
    if command == _PUSH:
        sets = rig.sets(rig.library)
        result.wanted(sets == [rig.set], "lost", f"sets: {sets}")
        result.wanted(len(objects) == 3, "duplicate", f"objects: {objects}")
    else:
        result.wanted(not objects, "orphan", f"objects are left: {objects}")
    result.wanted(not names, "orphan", f"left: {names}")


def library_rig(home: Path, strict: bool = False) -> LibraryRig:
    """The rig of the cases, in a directory of its own."""
    return LibraryRig(home / "project", speed=10.0, strict=strict)


FIGURES = (
    Figure(
        key="14",
        counted=("half", "lost", "duplicate", "orphan", "manual"),
        title="kill -9 of everything at every API call of `weights push` (which makes the library),"
        " `weights rm`, `library up`, `library down` and `down --purge-weights` (then `recover`);"
        " the same command again, or `weights rm` where that says so",
        rig=library_rig,
        cases=cases,
        judge=judge,
    ),
    Figure(
        key="14c",
        counted=("half", "lost", "duplicate", "manual"),
        title="kill -9 of everything at every API call that `up` makes before it asks for chips,"
        " where it copies weights to another region of the stack; `recover`, the same again",
        rig=library_rig,
        cases=copy_cases,
        judge=judge,
    ),
)
