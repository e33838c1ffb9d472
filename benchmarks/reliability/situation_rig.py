"""The dev stack, brought into a situation by commands once, and from a copy of it afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import requests
import yaml

from reliability.copies import Copy, put_back, take
from reliability.rig import StackRig
from tpuflex.errors import NotFoundError
from tpuflex.gcp.weights import WeightsBucket, weights_bucket

PROJECT = "tpuflex-dev"

Json = dict[str, Any]


class SituationRig(StackRig):
    """A :class:`StackRig` whose cases begin with what some commands have made."""

    def __init__(self, home: Path, *, speed: float = 1.0) -> None:
        super().__init__(home, speed=speed)
        self._situations: dict[str, Copy] = {}

    def stand(self, name: str, commands: Sequence[Sequence[str]]) -> None:
        """Let the situation ``name`` be there, to which ``commands`` lead, and nothing else."""
        self.reset()
        # Of an earlier case: what a home has pushed it believes to be in the bucket.
        (self.home / ".tpuflex" / "pushed-weights.json").unlink(missing_ok=True)
        if not commands:
            return
        now = float(self.control.call("GET", "clock")["epoch"])
        emulator = self.home / ".tpuflex" / "emulator"
        copy = self._situations.get(name)
        if copy is None or now - copy.epoch > self.stale_s:
            for words in commands:
                ended = self.run(*words)
                assert ended.exit_code == 0, self.said[-1].stderr
            copy = take(emulator, self._backend(), self.home / "situations" / name, now)
            self._situations[name] = copy
            self.reset()
        put_back(copy, emulator, self._backend())

    def change(self, edit: Callable[[Json], None]) -> None:
        """Let ``edit`` change the configuration in the stack file."""
        document = yaml.safe_load(self.stack_file.read_text())
        edit(document["config"])
        self.stack_file.write_text(yaml.safe_dump(document))

    @property
    def stack_file(self) -> Path:
        """The stack file."""
        return self.home / "stacks" / "Pulumi.dev.yaml"

    def bucket(self, name: str) -> WeightsBucket:
        """The sets of files in a bucket."""
        return weights_bucket(name, project=PROJECT, environ=self.environ())

    def damage(self, buckets: Iterable[str], extra_files: tuple[str, ...] = ()) -> list[str]:
        """What is wrong with sets in ``buckets`` that have a manifest, and so could be served."""
        found: list[str] = []
        for bucket in map(self.bucket, buckets):
            try:
                whole = [one.prefix for one in bucket.list() if one.manifest is not None]
                found += [
                    str(each) for one in whole for each in bucket.verify(one, extra_files).problems
                ]
            except NotFoundError:
                continue
        return found

    def objects(self, bucket: str, *, versions: bool = False) -> list[str]:
        """The names of all live objects of a bucket, or once for each version of one."""
        query = "?versions=true" if versions else ""
        answer = self.call("GET", f"storage/v1/b/{bucket}/o{query}")
        return [str(each["name"]) for each in answer.json().get("items", [])]

    def names(self) -> dict[str, list[str]]:
        """The names of all that there is, by kind; of objects, without their generation."""
        return {
            kind: [str(each["name"]).partition("#")[0] for each in listed]
            for kinds in self.control.inventory().values()
            for kind, listed in kinds.items()
            if listed
        }

    def call(self, method: str, path: str, body: Json | None = None) -> requests.Response:
        """An answer of the cloud to its owner."""
        token = {"Authorization": f"Bearer {self.control.token}"}
        url = f"{self.control.url}/{path}"
        return requests.request(method, url, json=body, headers=token, timeout=60)
