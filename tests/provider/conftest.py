"""Fixtures of the provider's tests."""

from __future__ import annotations

import gc
import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pulumi
import pytest
from pulumi import automation

from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.server import EmbeddedCloud
from tests.engine.quick_stack import QuickStack, StackInitMode
from tests.provider.deployment import PROJECT, SWIFT, ZONE, Rig
from tests.provider.reporting_hosts import Hosts
from tpuflex.engine.find import ensure
from tpuflex.engine.process import EngineProcess

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project and a backend with an empty stack: to make one takes half as long as an update."""
    base = tmp_path_factory.mktemp("blank")
    (base / "work").mkdir()
    (base / "backend").mkdir()
    (base / "work" / "Pulumi.yaml").write_text(
        "name: shop\nruntime: python\nplugins:\n  providers:\n"
        f"    - name: tpuflex\n      path: {ROOT / 'infra' / 'plugin'}\n"
    )
    with EmbeddedCloud(base / "emulator") as cloud:
        environ = {**cloud.environ(), "PULUMI_BACKEND_URL": f"file://{base / 'backend'}"}
        QuickStack("dev", _workspace(base / "work", environ, lambda: None), StackInitMode.CREATE)
    shutil.rmtree(base / "emulator")
    return base


@pytest.fixture
def rig(tmp_path: Path, blank: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Rig]:
    """A fresh stack on a fresh embedded cloud."""
    # Its records of a program that was cut short would keep that program's event loop alive.
    caplog.set_level(logging.CRITICAL, logger="grpc._server")
    shutil.copytree(blank, tmp_path, dirs_exist_ok=True)
    with EmbeddedCloud(tmp_path / "emulator", capacity=dict(SWIFT), project=PROJECT) as cloud:
        environ = {
            **cloud.environ(),
            "PULUMI_BACKEND_URL": f"file://{tmp_path / 'backend'}",
            "PULUMI_HOME": str(tmp_path / "home"),
        }
        made = Rig(
            cloud=cloud,
            stack=None,  # type: ignore[arg-type] # needs the rig's own program
            args={
                "zones": [ZONE],
                "accelerator_type": "v6e-4",
                "runtime_version": "v2-alpha-tpuv6e",
                "service_account": f"host@{PROJECT}.iam.gserviceaccount.com",
                "max_run_duration": "14400s",
                "labels": {"team": "search"},
                "metadata": {"startup-script": "exit 0", "note": "hello"},
            },
            opts=pulumi.ResourceOptions(),
        )
        made.stack = QuickStack.existing(
            "dev", _workspace(tmp_path / "work", environ, made.program)
        )
        yield made
    # The SDK leaves the event loop of a program that was cut short to the garbage collector;
    # collected here, it is this test that owns the warning (and is marked to ignore it).
    made.stack = None  # type: ignore[assignment]
    gc.collect()


@pytest.fixture
def served(rig: Rig) -> Iterator[None]:
    """The provider is served by this process: for tests whose subject is not the plugin's own."""
    with rig.served():
        yield


def _workspace(
    directory: Path, environ: dict[str, str], program: Callable[[], None]
) -> automation.Workspace:
    engine = ensure(ROOT / ".tpuflex", os.environ, lambda _: None)
    return automation.LocalWorkspace(
        work_dir=str(directory),
        program=program,
        env_vars=environ,
        pulumi_command=EngineProcess(engine.path, engine.version, environ),
    )


@pytest.fixture
def hosts(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Hosts:
    """Hosts that report what the test says, of slices that boot with our script; the first is
    READY."""
    rig.args["metadata"] = {"startup-script": "exit 0", "tpuflex-config": "{}"}
    made = Hosts()
    monkeypatch.setattr(GuestAttributes, "query", lambda _self, owner, *_: made.query(owner))
    made.report(1, {"phase": "READY"})
    return made
