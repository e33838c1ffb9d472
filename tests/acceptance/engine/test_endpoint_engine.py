"""The program and the component with the real engine, on the embedded cloud without hosts."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from pulumi import automation

from embedded_cloud.core.environment import client_environment
from embedded_cloud.gcp_plugin.provider import serve
from embedded_cloud.server import EmbeddedCloud
from tests.components.preparation import Prepared
from tests.engine.quick_stack import QuickStack, StackInitMode
from tests.unit.stack_sections import pinned
from tpuflex.engine.find import Engine, ensure
from tpuflex.engine.process import EngineProcess
from tpuflex.errors import WeightsError
from tpuflex.program import deploy, main
from tpuflex.settings.load import load_stack_file

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[3]
DEV = ROOT / "stacks" / "Pulumi.dev.yaml"
Program = Callable[[], None]


@dataclass(frozen=True)
class Workplace:
    """An empty embedded cloud, a project directory, and a shell that points to both."""

    cloud: EmbeddedCloud
    root: Path
    engine: Engine

    @property
    def stack_file(self) -> Path:
        return self.root / "stacks" / "Pulumi.dev.yaml"

    def stack(self, program: Program) -> automation.Stack:
        """The stack ``dev`` of the project, with ``program`` as its program."""
        workspace = automation.LocalWorkspace(
            work_dir=str(self.root),
            program=program,
            pulumi_command=EngineProcess(self.engine.path, self.engine.version, os.environ),
        )
        return QuickStack("dev", workspace, StackInitMode.CREATE)

    def edit(self, section: str, name: str, value: object) -> None:
        """Change one setting of the stack file."""
        document = yaml.safe_load(self.stack_file.read_text())
        document["config"].setdefault(f"tpuflex:{section}", {})[name] = value
        self.stack_file.write_text(yaml.safe_dump(document))

    def kinds(self) -> set[str]:
        """Kinds of the resources in the cloud."""
        return {
            f"{service}.{kind}"
            for service, kinds in self.cloud.cloud.inventory().items()
            for kind, resources in kinds.items()
            if resources
        }


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workplace]:
    """A project with the dev stack outside of this tree; the shell points to the embedded cloud."""
    engine = ensure(ROOT / ".tpuflex", os.environ, print)
    root, home = tmp_path / "project", tmp_path / "home"
    (root / "stacks").mkdir(parents=True)
    (home / "backend").mkdir(parents=True)
    manifest = yaml.safe_load((ROOT / "Pulumi.yaml").read_text())
    manifest["plugins"]["providers"][0]["path"] = str(ROOT / "infra" / "plugin")
    del manifest["main"]
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(manifest))
    (root / "stacks" / DEV.name).write_text(pinned(DEV.read_text()))
    quick = {"admission_s": 0.0, "grant_after_s": 0.0, "provisioning_s": 0.1, "deleting_s": 0.1}
    with EmbeddedCloud(home / "emulator", capacity={**quick}) as cloud:
        plugin = serve(cloud.url, token=cloud.token)
        shell = client_environment(
            base_url=cloud.url,
            state_dir=home / "emulator",
            project="tpuflex-dev",
            gcp_plugin_port=plugin.port,
        )
        path = f"{engine.path.parent}:{ROOT / '.venv' / 'bin'}:{os.environ['PATH']}"
        for name, value in {**shell, "PATH": path}.items():
            monkeypatch.setenv(name, value)
        try:
            yield Workplace(cloud, root, engine)
        finally:
            plugin.stop()


def changes(result: automation.PreviewResult) -> dict[str, int]:
    """How many resources a preview would create, change or replace."""
    return {str(kind): n for kind, n in result.change_summary.items() if kind != "same"}


def test_a_stack_of_an_earlier_version_gets_the_closed_network(workplace: Workplace) -> None:
    """What was made with NAT loses it and gets rules and zones; nothing is replaced, the slice goes
    on as it is, and the way back is as short."""
    workplace.edit("network", "egress", "internet")
    stack = workplace.stack(main)
    stack.up()
    assert "compute.routers" in workplace.kinds()

    workplace.edit("network", "egress", "google")
    assert changes(stack.preview()) == {"create": 12, "delete": 2, "update": 2}
    stack.up()

    assert "compute.routers" not in workplace.kinds()
    assert "dns.managedZones" in workplace.kinds()
    assert changes(stack.preview()) == {}
    assert set(stack.refresh().summary.resource_changes or {}) == {"same"}
    workplace.edit("network", "egress", "internet")
    assert changes(stack.preview()) == {"create": 2, "delete": 12, "update": 2}
    stack.destroy()
    assert workplace.kinds() == set()


def test_another_range_takes_the_slice_along_as_the_plan_says(workplace: Workplace) -> None:
    """The engine deletes what is in the subnetwork before that: the preview says that nothing
    serves meanwhile, and refuses it for a protected slice, before anything is deleted."""
    workplace.edit("slice", "deletion_protection", True)
    stack = workplace.stack(main)
    stack.up()
    made = workplace.cloud.cloud.inventory()
    workplace.edit("network", "subnetwork_cidr", "10.7.0.0/20")

    for command in (stack.preview, stack.up):
        with pytest.raises(automation.CommandError, match="it is not replaced for subnetwork"):
            command()
    assert workplace.cloud.cloud.inventory() == made
    workplace.edit("network", "subnetwork_cidr", "10.128.0.0/20")
    workplace.edit("slice", "deletion_protection", False)
    stack.up()
    workplace.edit("network", "subnetwork_cidr", "10.7.0.0/20")
    assert "its subnetwork is deleted before it is replaced" in stack.preview().stdout
    stack.destroy()


def test_failed_preparation_requests_no_chips(workplace: Workplace) -> None:
    """The bucket exists, the slice does not, and the next up continues from there."""
    settings = load_stack_file(DEV).settings
    prepare = Prepared(error=WeightsError("the weights are truncated", hint="tpuflex weights push"))

    def program() -> None:
        deploy(settings, project="tpuflex", stack="dev", prepare=prepare)

    stack, lines = workplace.stack(program), list[str]()
    with pytest.raises(automation.CommandError):
        stack.up(on_output=lines.append)

    assert "error: the weights are truncated" in "\n".join(lines)
    assert "Traceback" not in "\n".join(lines)
    assert "storage.buckets" in workplace.kinds()
    assert "tpu.queuedResources" not in workplace.kinds()

    prepare.error = None
    assert stack.up().outputs["lifecycle"].value == "active"
    stack.destroy()
    assert workplace.kinds() == set()


def test_a_preview_says_that_another_key_replaces_the_slice(workplace: Workplace) -> None:
    """A secret that is still to be made keeps no preview from knowing what its hosts boot with."""

    def program() -> None:
        settings = load_stack_file(workplace.stack_file).settings
        deploy(settings, project="tpuflex", stack="dev", prepare=Prepared())

    workplace.edit("model", "weights", {})
    stack = workplace.stack(program)
    stack.up()

    workplace.edit("secrets", "metrics_key_version", 1)
    planned = changes(stack.preview())
    done = dict(stack.up().summary.resource_changes or {})

    assert planned["replace"] == 1
    assert {kind: n for kind, n in done.items() if kind != "same"} == planned


def test_the_library_example_in_a_project_of_its_own(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P12: the example of the documentation deploys with the provider of its own environment, which
    Pulumi.yaml names by its path, in a shell that has none on PATH."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    example = ROOT / "docs" / "examples" / "library"
    (workplace.root / "Pulumi.yaml").write_bytes((example / "Pulumi.yaml").read_bytes())
    (workplace.root / "stacks").rename(workplace.root / "unused")
    (workplace.root / ".venv").symlink_to(sys.prefix)

    stack = workplace.stack(lambda: _ignore(runpy.run_path(str(example / "__main__.py"))))

    outputs = stack.up().outputs
    assert outputs["endpoint"].value.startswith("http://127.")
    assert outputs["api_key_secret"].value.endswith("/secrets/chat-dev-chat-api-key/versions/1")
    assert changes(stack.preview()) == {}
    stack.destroy()
    assert workplace.kinds() == set()


def _ignore(_: object) -> None:
    return None
