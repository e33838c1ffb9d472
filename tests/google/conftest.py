"""An embedded cloud with one bucket and one secret, and our own clients on it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.server import EmbeddedCloud
from tests.checkpoints import pushing
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.secrets import SecretClient
from tpuflex.google.session import authorized_session
from tpuflex.google.timing import Timing
from tpuflex.google.transport import Transport
from tpuflex.weights.bucket import WeightsBucket, weights_bucket
from tpuflex.weights.push import PushReport

PROJECT = "my-project"
PREFIX = "models/tiny/1"


def nobody_looks(_done: int, _total: int) -> None:
    """The progress of what nobody looks at."""


def push(
    bucket: WeightsBucket, directory: Path, prefix: str = PREFIX, **changes: Any
) -> PushReport:
    """Push as the command line does."""
    return bucket.push(pushing(directory, prefix, **changes))


@dataclass(frozen=True)
class Clients:
    """Our clients of one cloud.

    Attributes:
        environ: the environment that leads to the cloud.
        storage: JSON calls on Cloud Storage.
        secretmanager: JSON calls on Secret Manager.
    """

    environ: dict[str, str]
    storage: Transport
    secretmanager: Transport

    @property
    def secrets(self) -> SecretClient:
        """The client under test."""
        return SecretClient(self.secretmanager)

    def bucket(self, name: str = "bucket-1") -> WeightsBucket:
        """The client under test, on one bucket."""
        return weights_bucket(name, project=PROJECT, environ=self.environ)

    def delete(self, name: str) -> None:
        """Take one object away."""
        self.storage.call("DELETE", f"/storage/v1/b/bucket-1/o/{name.replace('/', '%2F')}")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A directory that looks like a model."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"one" * 1000)
    return directory


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[Clients]:
    """Clients of a cloud that has the bucket `bucket-1` and the secret `key` without a value."""
    with EmbeddedCloud(tmp_path / "cloud", project=PROJECT) as cloud:
        environ = dict(cloud.environ())
        endpoints = Endpoints.from_environ(environ)
        session = authorized_session(endpoints, environ)
        timing = Timing.real(threading.Event())
        found = Clients(
            environ,
            Transport(session, endpoints.storage, timing),
            Transport(session, endpoints.secretmanager, timing),
        )
        bucket = {"name": "bucket-1", "location": "US-EAST5"}
        found.storage.call("POST", "/storage/v1/b", query={"project": PROJECT}, body={**bucket})
        found.secretmanager.call(
            "POST",
            f"/v1/projects/{PROJECT}/secrets",
            query={"secretId": "key"},
            body={"replication": {"automatic": {}}},
        )
        yield found
        session.close()
