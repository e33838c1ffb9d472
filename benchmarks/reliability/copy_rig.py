"""The dev stack, with zones in two regions, before its chips are asked for: the library has its
weights in its home alone. No engine: what it would have made is made here."""

from __future__ import annotations

import json
import os
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.storage.copy_handlers import BYTES_PER_CALL
from reliability import processes
from reliability.command_rig import ROOT, Rig
from reliability.control import Control
from reliability.projects import SWIFT, write_stack
from tpuflex.boot.places import weights_prefix
from tpuflex.gcp.weights import WeightsBucket, weights_bucket
from tpuflex.naming import API_KEY, ENDPOINT_NAME, METRICS_KEY, Names, library_names
from tpuflex.settings.load import load_stack_file

PROJECT = "tpuflex-dev"
NEAR, FAR = (library_names(PROJECT).bucket(PROJECT, each) for each in ("us-east5", "europe-west4"))
_LOCATIONS = {NEAR: "US-EAST5", FAR: "EUROPE-WEST4"}


@dataclass(frozen=True, slots=True)
class Found:
    """A bucket as it is.

    Attributes:
        versions: name and generation of all objects, also of what is there no more.
        damage: what is wrong with sets that could be served.
        whole: hashes of the manifests of the complete ones.
    """

    versions: tuple[tuple[str, int], ...]
    damage: tuple[str, ...]
    whole: tuple[str, ...]


class CopyRig(Rig):
    """One command: ``prepare``, what `up` does before it asks for chips."""

    project = "tpuflex"

    def __enter__(self) -> Self:
        write_stack(self.home, ROOT)
        self._write_model()
        self._guard.enter_context(processes.guarded(self.mark, self.home))
        self._cloud = EmbeddedCloud(
            self.home / ".tpuflex" / "emulator", capacity=dict(SWIFT), project=PROJECT
        )
        self._cloud.__enter__()
        self.control = Control(self._cloud.url, self._cloud.token)
        self._clear_backend()
        self.control.speed(self.speed)
        self._file = self.home / "stacks" / "Pulumi.dev.yaml"
        self._written = self._file.read_text()
        self.prefix = weights_prefix(load_stack_file(self._file).settings.model)
        self.sha256 = ""
        return self

    def __exit__(self, *_: object) -> None:
        processes.end(self.mark)
        self._cloud.__exit__(None, None, None)
        self._guard.close()

    def command(self, words: Sequence[str]) -> list[str]:
        """The process that prepares the stack."""
        del words  # there is one command
        program = Path(__file__).with_name("preparing.py")
        return [sys.executable, "-P", str(program), str(self.home)]

    def environ(self) -> dict[str, str]:
        """The embedded cloud's variables."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TPUFLEX_HOME": str(self.home / ".tpuflex"),
            **self._cloud.environ(),
        }

    def owners(self) -> Mapping[str, str]:
        """The one endpoint of the dev stack."""
        names = Names(self.project, self.stack, ENDPOINT_NAME)
        return {names.owner: names.prefix}

    def begin(self) -> None:
        """Let the weights lie in the home, and nothing else be there but the buckets and the empty
        secrets."""
        self.reset()
        (self.home / ".tpuflex" / "pushed-weights.json").unlink(missing_ok=True)
        names, labels = (
            Names(self.project, self.stack, ENDPOINT_NAME),
            library_names(PROJECT).labels(),
        )
        for bucket, location in _LOCATIONS.items():
            body = {"name": bucket, "location": location, "labels": labels}
            versions = {"versioning": {"enabled": True}}
            self._call("POST", f"storage/v1/b?project={PROJECT}", {**body, **versions})
        for role in (API_KEY, METRICS_KEY):
            path = f"v1/projects/{PROJECT}/secrets?secretId={names.secret(role)}"
            self._call("POST", path, {"replication": {"automatic": {}}})
        pushed = self.bucket(NEAR).push(
            self.home / "model",
            self.prefix,
            model=load_stack_file(self._file, deploying=False).settings.model.name,
            revision="1",
            progress=lambda _done, _total: None,
        )
        self.sha256 = pushed.manifest.sha256
        self._write()

    def bucket(self, name: str) -> WeightsBucket:
        """The sets of weights in a bucket."""
        return weights_bucket(name, project=PROJECT, environ=self.environ())

    def found(self, name: str) -> Found:
        """What is in a bucket."""
        weights = self.bucket(name)
        versions = weights._bucket.list_blobs(versions=True)
        whole = [one.prefix for one in weights.list() if one.manifest is not None]
        checks = [weights.verify(prefix) for prefix in whole]
        return Found(
            tuple(sorted((each.name, each.generation) for each in versions)),
            tuple(f"gs://{name}: {problem}" for one in checks for problem in one.problems),
            tuple(one.sha256 for one in checks),
        )

    def secret_versions(self) -> list[str]:
        """Names of the versions of all secrets."""
        kinds = self.control.inventory()["secretmanager"]
        return [str(each["name"]) for each in kinds.get("versions", [])]

    def _write(self) -> None:
        document = yaml.safe_load(self._written)
        config = document["config"]
        weights = {"bucket": "library", "manifest_sha256": self.sha256}
        config["tpuflex:model"]["weights"] = weights
        config["tpuflex:serving"]["compile_cache"] = "host"
        config["tpuflex:slice"]["zones"] = ["us-east5-a", "europe-west4-a"]
        ranges = {"subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"}}
        config.setdefault("tpuflex:network", {}).update(ranges)
        self._file.write_text(yaml.safe_dump(document))

    def _write_model(self) -> None:
        """A tensor that takes two calls to copy to another region."""
        count = BYTES_PER_CALL // 4 + 1
        tensor = {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}
        header = json.dumps({"w": tensor}).encode()
        content = struct.pack("<Q", len(header)) + header + bytes(4 * count)
        (self.home / "model" / "model.safetensors").write_bytes(content)

    def _call(self, method: str, path: str, body: dict[str, Any]) -> None:
        answer = requests.request(
            method,
            f"{self._cloud.url}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {self._cloud.token}"},
            timeout=60,
        )
        assert answer.ok, f"{method} {path}: {answer.text}"
