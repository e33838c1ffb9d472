"""The real Pulumi engine on an embedded cloud without hosts, in a project of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from embedded_cloud.environment import client_environment
from embedded_cloud.gcp_plugin.server import serve
from embedded_cloud.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.tpu.capacity import Capacity
from tests.unit.stack_sections import pinned
from tpuflex.engine.find import Engine, ensure
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
    root = write_project(tmp_path / "project")
    home = root / ".tpuflex"
    (home / "backend").mkdir(parents=True)
    quick = {"admission_s": 0.0, "grant_after_s": 0.0, "provisioning_s": 0.1, "deleting_s": 0.1}
    with EmbeddedCloud(home / "emulator", capacity={**quick}) as cloud:
        plugin = serve(cloud.url, token=cloud.token)
        try:
            variables = client_environment(
                base_url=cloud.url,
                state_dir=home / "emulator",
                project="tpuflex-dev",
                gcp_plugin_port=plugin.port,
            )
            environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), **variables}
            yield Embedded(root, cloud, environ, pulumi_engine)
        finally:
            plugin.stop()
