"""One stack with one queued resource, the real engine and the embedded cloud."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psutil
import pulumi
import pytest
import requests
from pulumi import automation

from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.tpu.capacity import Capacity
from pulumi_plugin.log import EngineLog
from pulumi_plugin.serve import start
from tpuflex.engine.events import Note, progress_of
from tpuflex.google.timing import Timing
from tpuflex.plugin import connector
from tpuflex.provider.servicer import Servicer
from tpuflex.tpu import Provider, QueuedResource

#: Of tests with the real engine, which cuts programs short: Pulumi's SDK abandons the event loop of
#: one whose engine failed.
CUT_SHORT = [
    pytest.mark.engine,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
PROJECT = "cloud-project"
ZONE = "us-east5-a"
TYPE = "tpuflex:tpu:QueuedResource"
#: Two zones, and capacity rules of one that never grants.
A, B = "us-east5-a", "us-east5-b"
NEVER = {"never": True}
NAME = "projects/cloud-project/locations/us-east5-a/queuedResources/shop-dev-slice-g1"
#: Grants quickly, and is gone quickly: tests look at what happens, not at how long it takes.
SWIFT = {
    "admission_s": 0.0,
    "grant_after_s": 0.2,
    "provisioning_s": 0.1,
    "suspending_s": 0.1,
    "deleting_s": 0.1,
}


@dataclass
class Rig:
    """A stack, its engine and its cloud; ``args`` is what the program asks for, under the
    ``logical`` name, ``inside`` a component of that type if any."""

    cloud: EmbeddedCloud
    stack: automation.Stack
    args: dict[str, Any]
    opts: pulumi.ResourceOptions
    logical: str = "slice"
    inside: str = ""
    embedded: bool = True
    first_address: bool = False
    lines: list[str] = field(default_factory=list)
    ephemeral: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def program(self) -> None:
        """The Pulumi program of the stack."""
        provider = Provider("cloud", project=PROJECT, embedded=self.embedded)
        opts = pulumi.ResourceOptions.merge(self.opts, pulumi.ResourceOptions(provider=provider))
        if self.inside:
            parent = pulumi.ComponentResource(self.inside, "part", opts=opts)
            opts = pulumi.ResourceOptions.merge(opts, pulumi.ResourceOptions(parent=parent))
        made = QueuedResource(self.logical, **self.args, opts=opts)
        pulumi.export("lifecycle", made.lifecycle)
        pulumi.export("addresses", made.ip_addresses)
        if self.first_address:
            pulumi.export("first", made.ip_addresses.apply(lambda found: found[0]))

    def hear(self, event: automation.EngineEvent) -> None:
        """Keep what the engine shows."""
        if isinstance(note := progress_of(event), Note):
            self.notes.append(note)
        said = event.diagnostic_event
        if said is not None:
            (self.ephemeral if said.ephemeral else self.lines).append(said.message)

    def up(self) -> automation.UpResult:
        return self.stack.up(on_event=self.hear, on_output=self._print)

    def preview(self) -> dict[str, int]:
        result = self.stack.preview(on_event=self.hear, on_output=self._print)
        return {str(kind): count for kind, count in result.change_summary.items()}

    def refresh(self) -> None:
        self.stack.refresh(on_event=self.hear, on_output=self._print)

    def destroy(self) -> None:
        self.stack.destroy(on_event=self.hear, on_output=self._print)

    def background(self, work: Callable[[], Any]) -> Future[Any]:
        """Run ``work`` on a thread of its own."""
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(work())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future

    @contextmanager
    def attached(self, port: int) -> Iterator[None]:
        """The engine uses the provider that listens on ``port`` instead of the plugin."""
        workspace = self.stack.workspace
        before = workspace.env_vars
        workspace.env_vars = {**before, "PULUMI_DEBUG_PROVIDERS": f"tpuflex:{port}"}
        try:
            yield
        finally:
            workspace.env_vars = before

    @contextmanager
    def served(self, offset: float = 0.0, *, new_host: bool = False) -> Iterator[None]:
        """The engine uses a provider in this process, whose clock is ``offset`` seconds ahead, and
        which is asked for a new host or not.

        That saves two or three processes in each run of the engine.
        """

        def ahead(stop: threading.Event) -> Timing:
            return replace(Timing.real(stop), wall=lambda: time.time() + offset)

        environ = self.cloud.environ()
        servicer = Servicer(
            EngineLog(), connector(environ), ahead, new_host=new_host, environ=environ
        )
        plugin = start(servicer, threads=50)
        try:
            with self.attached(plugin.port):
                yield
        finally:
            servicer.stop()
            plugin.stop()

    def engine(self) -> psutil.Process:
        """The engine process that runs now."""
        mine = psutil.Process().children()
        (found,) = [child for child in mine if child.name() == "pulumi"]
        return found

    def resource(self) -> dict[str, Any] | None:
        """The queued resource in the state; None if there is none."""
        deployment = self.stack.export_stack().deployment or {}
        assert not deployment.get("pending_operations")
        found = [item for item in deployment.get("resources", []) if item["type"] == TYPE]
        assert len(found) <= 1
        return dict(found[0]) if found else None

    def calls(self, method: str, part: str = "queuedResources") -> list[dict[str, Any]]:
        """Calls in the cloud's history with this HTTP method whose path holds ``part``."""
        text = (self.cloud.state_dir / "history.jsonl").read_text()
        entries = [json.loads(line) for line in text.splitlines()]
        return [e for e in entries if e["method"] == method and part in e["path"]]

    def tpu(self) -> dict[str, Any]:
        """Every TPU resource that the cloud has, by kind; operations are not resources."""
        found = self.cloud.cloud.inventory().get("tpu", {})
        return {kind: items for kind, items in found.items() if items and kind != "operations"}

    def call(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Call the cloud's TPU API, as gcloud would."""
        answer = requests.request(
            method,
            f"{self.cloud.url}/v2alpha1/{path}",
            headers={"Authorization": f"Bearer {self.cloud.token}"},
            json=body,
            timeout=60,
        )
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def capacity(self, **rule: Any) -> None:
        """Set the capacity rules."""
        self.cloud.cloud.capacity.set(Capacity.from_json({**SWIFT, **rule}))

    def _print(self, text: str) -> None:
        print(text, end="")


def until(fact: Callable[[], Any], seconds: float = 60.0) -> None:
    """Wait for another process to make ``fact`` true."""
    give_up = time.monotonic() + seconds
    while not fact():
        assert time.monotonic() < give_up, "it did not happen"
        time.sleep(0.02)


def outputs(rig: Rig) -> dict[str, Any]:
    """Output properties in the state."""
    found = rig.resource()
    assert found is not None
    return dict(found["outputs"])


def urn(rig: Rig) -> str:
    """URN of the queued resource in the state."""
    found = rig.resource()
    assert found is not None
    return str(found["urn"])


def command(rig: Rig, *arguments: str) -> str:
    """Run the engine's own command line on the stack."""
    workspace = rig.stack.workspace
    done = workspace.pulumi_command.run(
        [*arguments, "--stack", rig.stack.name, "--yes"], workspace.work_dir, {}
    )
    return done.stdout


def name(zone: str, generation: int = 1) -> str:
    """Full name of the queued resource in ``zone``."""
    return f"projects/{PROJECT}/locations/{zone}/queuedResources/shop-dev-slice-g{generation}"


def live(rig: Rig) -> list[str]:
    """Full names of all queued resources that the cloud has."""
    return sorted(str(item["name"]) for item in rig.tpu().get("queuedResources", []))


def metadata(rig: Rig) -> dict[str, str]:
    """Metadata of the node, which its first generation has."""
    return dict(rig.call("GET", NAME.replace("queuedResources", "nodes"))["metadata"])
