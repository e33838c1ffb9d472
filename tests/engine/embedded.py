"""The real Pulumi engine on an embedded cloud without hosts, in a project of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from embedded_cloud.core.environment import client_environment
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.gcp_plugin.provider import serve
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.tpu.capacity import Capacity
from embedded_cloud.strict.book import STRICT
from tests.unit.stack_sections import pinned
from tpuflex.engine.find import Engine, ensure
from tpuflex.google.timing import SPEED_VARIABLE
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Embedded:
    """A project directory, an embedded cloud, and an engine for both."""

    root: Path
    cloud: EmbeddedCloud
    environ: dict[str, str]
    engine: Engine

    @property
    def settings(self) -> StackSettings:
        return load_stack_file(self.root / "stacks" / "Pulumi.dev.yaml").settings

    def set_capacity(self, rule: JsonObject) -> None:
        """Put a capacity rule in force."""
        self.cloud.cloud.capacity.set(Capacity.from_json(rule))

    def remaining(self) -> list[str]:
        """Kinds of what exists in the cloud."""
        return [
            kind
            for kinds in self.cloud.cloud.inventory().values()
            for kind, resources in kinds.items()
            if resources
        ]


@pytest.fixture(scope="session")
def pulumi_engine() -> Engine:
    """The engine of this checkout; built on first use."""
    return ensure(ROOT / ".tpuflex", os.environ, print)


def write_project(root: Path) -> Path:
    """A project like this checkout's, outside of the tree."""
    (root / "stacks").mkdir(parents=True)
    manifest = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    manifest["plugins"]["providers"][0]["path"] = str(ROOT / "infra" / "plugin")
    manifest["runtime"] = {"name": "python"}
    manifest.pop("main")
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(manifest))
    stack = (ROOT / "stacks" / "Pulumi.dev.yaml").read_text()
    (root / "stacks" / "Pulumi.dev.yaml").write_text(pinned(stack))
    return root


@pytest.fixture
def embedded(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Embedded]:
    """The dev stack's project on an empty embedded cloud that grants at once."""
    with on_cloud(tmp_path, pulumi_engine) as found:
        yield found


@pytest.fixture
def strictly_embedded(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Embedded]:
    """The same on a cloud as strict as Google, in a project whose APIs are on: the engine alone
    does not wait for them, as `tpuflex up` does before it starts the engine."""
    strict = STRICT.to_json()
    strict["apis"] = {}
    with on_cloud(tmp_path, pulumi_engine, strictness=strict, speed=20.0) as found:
        yield found


@contextmanager
def on_cloud(
    tmp_path: Path,
    pulumi_engine: Engine,
    *,
    strictness: JsonObject | None = None,
    speed: float = 1.0,
) -> Iterator[Embedded]:
    """The dev stack's project on an empty embedded cloud that grants at once.

    Args:
        tmp_path: where it is.
        pulumi_engine: the engine.
        strictness: what the cloud refuses and delays.
        speed: seconds of the cloud's clock, and of the provider's, in one of the machine's.
    """
    root = write_project(tmp_path / "project")
    home = root / ".tpuflex"
    (home / "backend").mkdir(parents=True)
    quick = {"admission_s": 0.0, "grant_after_s": 0.0, "provisioning_s": 0.1, "deleting_s": 0.1}
    embedded_cloud = EmbeddedCloud(home / "emulator", capacity={**quick}, strictness=strictness)
    embedded_cloud.cloud.run_at(speed)
    with embedded_cloud as cloud:
        plugin = serve(cloud.url, token=cloud.token)
        try:
            variables = client_environment(
                base_url=cloud.url,
                state_dir=home / "emulator",
                project="tpuflex-dev",
                gcp_plugin_port=plugin.port,
            )
            # The engine of this checkout is found as any other on PATH would be.
            path = f"{pulumi_engine.path.parent}:{os.environ['PATH']}"
            environ = {"PATH": path, "HOME": str(tmp_path), **variables}
            environ |= {SPEED_VARIABLE: str(speed)} if speed != 1.0 else {}
            yield Embedded(root, cloud, environ, pulumi_engine)
        finally:
            plugin.stop()
