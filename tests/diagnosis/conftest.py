"""A stack's endpoint on an embedded cloud, in every state that it can be in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.server import EmbeddedCloud
from tests.cli.boot_logs import WrittenBoot
from tests.cli.conftest import invocation, type_in
from tests.cli.typing import NOON
from tests.diagnosis.model import Model
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, flex_start
from tpuflex.diagnosis.diagnose import diagnose
from tpuflex.diagnosis.judge import Diagnosis
from tpuflex.google.required_apis import APIS
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import read_stack

__all__ = ["invocation", "type_in"]


@dataclass
class Endpoint:
    """An endpoint, and the cloud that it is on.

    Attributes:
        running: the cloud.
        clock: its clock, which stands still.
        cloud: the connection of the stack to it.
    """

    running: EmbeddedCloud
    clock: ManualClock
    cloud: Connection

    @property
    def api(self) -> Api:
        """Calls on the cloud."""
        settings = self.cloud.stack.settings
        return Api(self.running.url, settings.project, settings.slice.zones[0])

    @property
    def request(self) -> str:
        """Id of the queued resource, and of its node."""
        return self.cloud.stack.names.queued_resource_id()

    @property
    def node(self) -> str:
        """Full name of the node."""
        return f"projects/{self.api.project}/locations/{self.api.zone}/nodes/{self.request}"

    def ask(self, **rule: Any) -> None:
        """Request the slice, under a rule for what becomes of it."""
        self.api.capacity(**rule)
        body = flex_start(labels=self.cloud.stack.names.labels())
        spec = body["tpu"]["nodeSpec"][0]
        spec["nodeId"] = self.request
        spec["parent"] = f"projects/{self.api.project}/locations/{self.api.zone}"
        answer = self.api.create(self.request, body)
        assert answer.ok, answer.text

    def runs(self, minutes: float = 1.0) -> None:
        """The slice is ACTIVE, and has been for so long."""
        self.ask(**AT_ONCE)
        self.pass_time(minutes)
        assert self.api.state(self.request) == "ACTIVE"

    def pass_time(self, minutes: float) -> None:
        """Let time pass."""
        self.clock.advance(60 * minutes)
        self.running.cloud.tick()

    def reports(self, phase: str, error: str = "", serving: dict[str, Any] | None = None) -> None:
        """The host says this of itself."""
        now = self.clock.now()
        report = {
            "phase": phase,
            "error": error,
            "timeline": json.dumps({"config": now - 60, phase: now - 30}),
        }
        guest = GuestAttributes(self.running.cloud.store)
        guest.put(self.node, 0, "tpuflex", "report", json.dumps(report))
        if serving:
            document = {"since": now, "at": now, **serving}
            guest.put(self.node, 0, "tpuflex", "serving", json.dumps(document))

    def boot_log(self) -> WrittenBoot:
        """A log of a boot of its host, to be written."""
        began = datetime.fromtimestamp(self.clock.now(), UTC) - timedelta(seconds=30)
        return WrittenBoot(self.cloud, began, node=self.request)

    def diagnosed(self) -> Diagnosis:
        """What is wrong with it, without a way to its host."""
        return diagnose(self.cloud, tunnel=False)


@pytest.fixture
def endpoint(project: Path, tmp_path: Path) -> Iterator[Endpoint]:
    """An endpoint that is not up, of a stack on Google, at noon."""
    stack = read_stack(open_project(project, {}), "dev")
    settings = stack.settings.model_copy(update={"cloud": "google"})
    clock = ManualClock(NOON.timestamp())
    with EmbeddedCloud(
        tmp_path / "emulator", project=settings.project, clock=clock, token=TOKEN
    ) as running:
        api = Api(running.url, settings.project)
        services = [each.service for each in APIS]
        body = {"serviceIds": services}
        assert api.call(
            "POST", f"v1/projects/{settings.project}/services:batchEnable", body=body
        ).ok
        connection = Connection(
            replace(stack, settings=settings),
            dict(running.environ()),
            now=lambda: datetime.fromtimestamp(clock.now(), UTC),
        )
        yield Endpoint(running, clock, connection)


@pytest.fixture
def model() -> Iterator[Model]:
    """A language model's endpoint on loopback."""
    found = Model()
    server = found.serve()
    yield found
    server.shutdown()
    server.server_close()
