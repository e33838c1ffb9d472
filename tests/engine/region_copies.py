"""What tests of `weights push --from-region` share: a stack whose weights come from the Hub, kills,
and a bucket and a secret that others look after."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml

from reliability.control import Control
from reliability.rig import StackRig
from tests.hub_models import MODEL, TOKEN, put_model

PUSH = ("weights", "push", "--from-region", "--yes")
SECRET = "projects/acme-vault/secrets/hub"


@contextmanager
def copying_rig(home: Path) -> Iterator[StackRig]:
    """The dev stack in ``home`` with a model of the Hub as its source; TPU hosts run nothing,
    machines do."""
    with StackRig(home, speed=20) as rig:
        write_weights(rig)
        put_model(rig.home / ".tpuflex" / "emulator")
        yield rig


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[StackRig]:
    """The stack that copies."""
    with copying_rig(tmp_path / "project") as rig:
        yield rig


def run(rig: StackRig, *words: str, code: int = 0) -> str:
    """What a command printed."""
    ended = rig.run(*words)
    assert ended.exit_code == code, rig.said[-1]
    return str(rig.said[-1].stdout)


def kill(method: str, stage: str = "after-commit") -> dict[str, object]:
    """The command is killed at the first call of this method."""
    where = {"method_id": method}
    return {"where": where, "stage": stage, "effect": {"kind": "kill", "roles": ["cli"]}}


def of_compute(rig: StackRig) -> dict[str, list[str]]:
    """Names of what Compute Engine has."""
    found = rig.control.inventory().get("compute", {})
    return {
        kind: [str(each["name"]).rpartition("/")[2] for each in listed]
        for kind, listed in found.items()
        if listed
    }


def write_weights(rig: StackRig, **weights: str) -> None:
    """Let the dev stack have its weights from the Hub, and where ``weights`` says."""
    file = rig.home / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:model"]["weights"] = {"source": f"hf://{MODEL}", **weights}
    file.write_text(yaml.safe_dump(document))


def write_token(rig: StackRig, **secrets: object) -> None:
    """Let the stack have the Hub's token where ``secrets`` says."""
    file = rig.home / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    document["config"]["tpuflex:secrets"] = secrets
    file.write_text(yaml.safe_dump(document))


def call(control: Control, method: str, path: str, **more: Any) -> requests.Response:
    """An answer of the cloud to its owner."""
    token = {"Authorization": f"Bearer {control.token}"}
    return requests.request(method, f"{control.url}/{path}", headers=token, timeout=60, **more)


class Bucket:
    """A bucket of the user's own, in another project than the stack's."""

    def __init__(
        self,
        rig: StackRig,
        location: str = "US-EAST5",
        *,
        uniform: bool = True,
        name: str = "acme-models",
    ) -> None:
        self._control, self.name = rig.control, name
        access = {"uniformBucketLevelAccess": {"enabled": uniform}}
        body = {"name": self.name, "location": location, "iamConfiguration": access}
        assert self.call("POST", "storage/v1/b?project=acme-data", json=body).ok

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """An answer of Cloud Storage."""
        return call(self._control, method, path, **more)

    def put(self, name: str, content: bytes = b"theirs", **metadata: str) -> None:
        """Somebody of its team writes an object."""
        path = f"upload/storage/v1/b/{self.name}/o?uploadType=media&name={name}"
        assert self.call("POST", path, data=content).ok
        if metadata:
            path = f"storage/v1/b/{self.name}/o/{name.replace('/', '%2F')}"
            assert self.call("PATCH", path, json={"metadata": metadata}).ok

    def read(self, name: str) -> tuple[bytes, dict[str, Any]]:
        """Content and description of an object."""
        path = f"storage/v1/b/{self.name}/o/{name.replace('/', '%2F')}"
        return self.call("GET", f"{path}?alt=media").content, self.call("GET", path).json()

    def objects(self) -> dict[str, dict[str, str]]:
        """Its objects with their metadata."""
        items = self.call("GET", f"storage/v1/b/{self.name}/o").json().get("items", [])
        return {each["name"]: each.get("metadata", {}) for each in items}

    def let_in(self, *, gone: bool = False) -> dict[str, str]:
        """Which accounts that are there, or are gone, are let into a part of it: role and
        condition."""
        return dict(self.bindings(gone=gone))

    def bindings(self, *, gone: bool = False) -> list[tuple[str, str]]:
        """The same, where a role is given on two conditions."""
        path = f"storage/v1/b/{self.name}/iam?optionsRequestedPolicyVersion=3"
        return [
            (each["role"], each["condition"]["expression"])
            for each in self.call("GET", path).json().get("bindings", [])
            for member in each["members"]
            if "condition" in each and member.startswith("deleted:") is gone
        ]


class Secret:
    """A secret of the user's own, in another project than the stack's, with the Hub's token; the
    model is gated by it."""

    def __init__(self, rig: StackRig, **labels: str) -> None:
        self._control = rig.control
        (rig.home / ".tpuflex" / "emulator" / "hub" / MODEL / ".gated").write_text(TOKEN)
        body = {"replication": {"automatic": {}}, "labels": labels}
        assert self.call("POST", "projects/acme-vault/secrets?secretId=hub", json=body).ok
        for value in (b"of-another-time", TOKEN.encode()):
            payload = {"payload": {"data": base64.b64encode(value).decode()}}
            assert self.call("POST", f"{SECRET}:addVersion", json=payload).ok

    def call(self, method: str, path: str, **more: Any) -> requests.Response:
        """An answer of Secret Manager."""
        return call(self._control, method, f"v1/{path}", **more)

    def readers(self, *, gone: bool = False) -> list[str]:
        """Which versions accounts that are there, or are gone, may read."""
        path = f"{SECRET}:getIamPolicy?options.requestedPolicyVersion=3"
        return [
            each["condition"]["expression"].rpartition("/")[2].rstrip("'")
            for each in self.call("GET", path).json().get("bindings", [])
            for member in each["members"]
            if member.startswith("deleted:") is gone
        ]
