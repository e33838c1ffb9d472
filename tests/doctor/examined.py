"""The dev stack on an embedded cloud, as `tpuflex doctor` examines it, to take things away from."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import requests

from embedded_cloud.core.json_types import JsonObject, JsonValue
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.tpu.capacity import Capacity
from tests.embedded_cloud.api import TOKEN
from tests.loopback import overrides
from tpuflex.doctor.check import Check
from tpuflex.doctor.examine import cloud_examinations
from tpuflex.doctor.side_by_side import examine_all
from tpuflex.doctor.state import bucket_checks
from tpuflex.google.credentials import QUOTA_PROJECT_VARIABLE
from tpuflex.google.required_apis import APIS
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack, read_stack

DIGEST = f"sha256:{'1' * 64}"
PROJECT = "v1/projects/tpuflex-dev"
MIRROR = "us-east5-docker.pkg.dev/tpuflex-dev/dockerhub"


@dataclass
class Doctor:
    """An embedded cloud, and the dev stack on it with some settings changed.

    Attributes:
        running: the cloud.
        stack: the stack.
        url: the cloud's address.
        token: the caller's.
        quota_project: the project that the caller's calls are charged to; empty for none.
        backend: URL of the backend of Pulumi's state; empty for that of the embedded cloud.
        engine_says: what the engine refuses `up` with; empty if it does not.
    """

    running: EmbeddedCloud
    stack: Stack
    url: str
    token: str = TOKEN
    quota_project: str = ""
    backend: str = ""
    engine_says: str = ""

    def change(self, section: str, **values: Any) -> None:
        """Change settings of a section of the stack file."""
        settings = self.stack.settings
        changed = getattr(settings, section).model_copy(update=values)
        self.stack = replace(self.stack, settings=settings.model_copy(update={section: changed}))

    def strict(self, **areas: JsonValue) -> None:
        """Put areas of strictness in force."""
        self.call("POST", "_emulator/strictness", areas)

    def capacity(self, **rule: Any) -> None:
        """Put a capacity rule in force."""
        self.running.cloud.capacity.set(Capacity.from_json(rule))

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """A call on the cloud, which must succeed."""
        answer = requests.request(
            method,
            f"{self.url}/{path}",
            json=body,
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=30,
        )
        assert answer.ok, answer.text
        return answer.json()

    def remove(self, path: str) -> None:
        """Delete something on the cloud."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        requests.delete(f"{self.url}/{path}", headers=headers, timeout=30).raise_for_status()

    @property
    def cloud(self) -> Connection:
        """The cloud as a command has it."""
        environ = {
            **overrides(self.url),
            "STORAGE_EMULATOR_HOST": self.url,
            "GOOGLE_OAUTH_ACCESS_TOKEN": self.token,
        }
        if self.quota_project:  # which the embedded cloud's own token never has
            user = self.running.environ("user")
            environ = {**user, QUOTA_PROJECT_VARIABLE: self.quota_project}
        return Connection(self.stack, environ)

    def checks(self) -> dict[str, Check]:
        """All checks of the cloud, by name."""
        found = chain(*examine_all(cloud_examinations(self.cloud)))
        if self.backend:
            found = chain(found, bucket_checks(self.backend, self.stack, self.cloud.environ))
        return {check.name: check for check in found}


@contextmanager
def healthy(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """The dev stack with an image in the project's registry, on a cloud where all is well.

    Args:
        project: directory of the project.
        tmp_path: an empty directory.
    """
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN) as running:
        found = Doctor(running, read_stack(open_project(project, {}), "dev"), running.url)
        found.change("serving", image=f"{MIRROR}/vllm/vllm-tpu@{DIGEST}")
        services: list[JsonValue] = [api.service for api in APIS]
        found.call("POST", f"{PROJECT}/services:batchEnable", {"serviceIds": services})
        found.call(
            "POST",
            f"{PROJECT}/locations/us-east5/repositories?repositoryId=dockerhub",
            {"format": "DOCKER"},
        )
        yield found


def quota(preemptible: int, on_demand: int) -> JsonObject:
    """Quota of both pools in every zone."""
    return {"*": {"preemptible": preemptible, "on_demand": on_demand}}
