"""Figure 14: kill -9 at every call of the commands that make, fill and remove a library."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from reliability.copies import Copy, put_back, take
from reliability.figures.callers import callers
from reliability.figures.figure import Case, Figure, Result
from reliability.figures.power_failures import kill, killed
from reliability.rig import StackRig
from tpuflex.boot.config import weights_bucket as bucket_name
from tpuflex.boot.config import weights_prefix
from tpuflex.errors import NotFoundError
from tpuflex.gcp.weights import WeightsBucket, weights_bucket
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


class LibraryRig(StackRig):
    """The dev stack with its weights in a library."""

    def __enter__(self) -> Self:
        super().__enter__()
        file = self.home / "stacks" / "Pulumi.dev.yaml"
        document = yaml.safe_load(file.read_text())
        weights = {"bucket": "library", "source": "model"}
        document["config"]["tpuflex:model"]["weights"] = weights
        file.write_text(yaml.safe_dump(document))
        settings = load_stack_file(file).settings
        self.set = weights_prefix(settings.model)
        self.bucket_name = bucket_name(settings, Names(self.project, self.stack, ENDPOINT_NAME))
        self._situations: dict[str, Copy] = {}
        return self

    def command(self, words: Any) -> list[str]:
        """The command line with the set's name, and the confirmation given."""
        named = [self.set if word == _SET else word for word in words]
        return super().command([*named, "--yes"] if named[0] != "recover" else named)

    def begin(self, before: str) -> None:
        """Let this be there, and nothing else."""
        self.reset()
        if not BEFORE[before]:
            return
        now = float(self.control.call("GET", "clock")["epoch"])
        emulator = self.home / ".tpuflex" / "emulator"
        copy = self._situations.get(before)
        if copy is None or now - copy.epoch > self.stale_s:
            for words in BEFORE[before]:
                ended = self.run(*words)
                assert ended.exit_code == 0, self.said[-1].stderr
            copy = take(emulator, self._backend(), self.home / "situations" / before, now)
            self._situations[before] = copy
            self.reset()
        put_back(copy, emulator, self._backend())

    @property
    def bucket(self) -> WeightsBucket:
        """The bucket of the library."""
        return weights_bucket(self.bucket_name, project="tpuflex-dev", environ=self.environ())

    def damage(self) -> list[str]:
        """What is wrong with sets of weights that have a manifest, and so could be served."""
        try:
            whole = [one.prefix for one in self.bucket.list() if one.manifest is not None]
            return [str(each) for one in whole for each in self.bucket.verify(one).problems]
        except NotFoundError:
            return []

    def objects(self) -> list[str]:
        """The names of all live objects of the library."""
        token = {"Authorization": f"Bearer {self.control.token}"}
        url = f"{self.control.url}/storage/v1/b/{self.bucket_name}/o"
        answer = requests.get(url, headers=token, timeout=60)
        return [str(each["name"]) for each in answer.json().get("items", [])]

    def names(self) -> dict[str, list[str]]:
        """The names of all that there is, by kind."""
        return {
            kind: [str(each["name"]) for each in listed]
            for kinds in self.control.inventory().values()
            for kind, listed in kinds.items()
            if listed
        }


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
    result = kill(rig, case, words, rig.damage)
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
    buckets = [] if command == "library down" else [rig.bucket_name]
    result.wanted(names.pop("buckets", []) == buckets, "duplicate", f"buckets: {rig.names()}")
    objects = rig.objects()
    if buckets:  # It keeps versions of what is deleted.
        names.pop("objects", None)
    if command == "weights push":
        sets = rig.bucket.list()
        whole = [one.prefix for one in sets if one.manifest is not None]
        result.wanted(whole == [rig.set] and len(sets) == 1, "lost", f"sets: {sets}")
        result.wanted(not rig.damage(), "half", f"in the end: {rig.damage()}")
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
