"""Failures of a real endpoint: each is diagnosed, and following the command mends it.

tpuflex, engine, startup script and vLLM are the real ones, on an embedded cloud; one stack goes
through all tests, in this order.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.engine.embedded import ROOT, pulumi_engine
from tests.security.vllm_host import image_is_installed
from tpuflex.engine.find import Engine
from tpuflex.stack.emulator import Daemon

__all__ = ["pulumi_engine"]

pytestmark = [
    pytest.mark.engine,
    pytest.mark.vllm,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(
        not image_is_installed(), reason="vLLM for CPU is not installed: `tpuflex emulator image`"
    ),
]
#: Capacity at once.
QUICK = {"admission_s": 0.0, "grant_after_s": 0.0, "provisioning_s": 0.1, "deleting_s": 0.1}


@dataclass
class Project:
    """A project with the dev stack, on an embedded cloud of its own."""

    root: Path
    environ: dict[str, str]

    @property
    def cloud(self) -> Daemon:
        """What controls the cloud."""
        return Daemon(self.root / ".tpuflex")

    def type(self, *words: str, code: int = 0) -> str:
        """What a command prints on standard output."""
        done = subprocess.run(
            [sys.executable, "-P", "-m", "tpuflex", *words],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def diagnosed(self, code: int) -> dict[str, Any]:
        """The document of `tpuflex diagnose`."""
        found: dict[str, Any] = json.loads(self.type("diagnose", "--json", code=code))
        return found

    def change(self, before: str, after: str) -> None:
        """Edit the stack file."""
        file = self.root / "stacks" / "Pulumi.dev.yaml"
        text = file.read_text()
        assert before in text
        file.write_text(text.replace(before, after))

    def capacity(self, **rule: object) -> None:
        """Put a rule for capacity in force."""
        self.cloud.call("POST", "capacity", {**QUICK, **rule})

    def strict(self, **areas: object) -> None:
        """Make areas of the cloud strict."""
        self.type("emulator", "strictness", json.dumps(areas))


@pytest.fixture(scope="module")
def project(pulumi_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """A project whose engine, image and model are this checkout's."""
    base = tmp_path_factory.mktemp("diagnose")
    root = base / "project"
    root.mkdir()
    home = root / ".tpuflex"
    home.mkdir(mode=0o700)
    for cache in ("engine", "vllm", "models"):
        (home / cache).symlink_to(ROOT / ".tpuflex" / cache)
    path = f"{pulumi_engine.path.parent}:{os.environ['PATH']}"
    found = Project(root, {"PATH": path, "HOME": str(base), "LANG": "C.UTF-8"})
    found.type("init", "--cloud", "embedded")
    found.type("emulator", "start", "--port", "0")
    found.capacity()
    try:
        yield found
    finally:
        found.type("emulator", "stop")


def test_nothing_there(project: Project) -> None:
    """Before the first `up`, nothing is wrong and nothing runs."""
    found = project.diagnosed(4)

    assert (found["class"], found["state"]) == (None, "absent")
    assert "tpuflex up" in found["next"]


@pytest.mark.parametrize(
    ("areas", "back", "slug", "code"),
    [
        (
            {"permissions": {"missing": ["tpu.nodes.create"]}},
            {"permissions": {"missing": []}},
            "permission",
            6,
        ),
        (
            {
                "organization_policies": {
                    "constraints": {"compute.disableGuestAttributesAccess": True}
                }
            },
            {
                "organization_policies": {
                    "constraints": {"compute.disableGuestAttributesAccess": False}
                }
            },
            "guest-attributes",
            6,
        ),
        (
            {"organization_policies": {"constraints": {"compute.requireShieldedVm": True}}},
            {"organization_policies": {"constraints": {"compute.requireShieldedVm": False}}},
            "secure-boot",
            6,
        ),
    ],
)
def test_what_keeps_it_from_coming_up(
    project: Project,
    areas: dict[str, object],
    back: dict[str, object],
    slug: str,
    code: int,
) -> None:
    """`up` refuses, and the class has the command that lifts what is in the way."""
    project.strict(**areas)
    project.type("up", "--yes", code=code)
    found = project.diagnosed(code)
    project.strict(**back)

    assert (found["class"], found["certainty"]) == (slug, "certain")
    assert "gcloud" in found["next"] or "secure_boot" in found["next"]
    assert project.diagnosed(4)["class"] is None


def test_no_quota(project: Project) -> None:
    """The project has none of the quota: the class is the quota's, with the doctor's line."""
    project.capacity(quota={"*": 0})
    project.type("up", "--yes", code=6)
    found = project.diagnosed(6)
    project.capacity()

    assert found["class"] == "quota"
    assert found["lines"]


def test_no_capacity(project: Project) -> None:
    """Google's own words, and `up` requests capacity again."""
    message = 'There is no more capacity in the zone "us-east5-a"'
    project.capacity(failure={"code": "RESOURCE_EXHAUSTED", "message": message})
    project.type("up", "--yes", code=3)
    found = project.diagnosed(3)
    project.capacity()

    assert (found["class"], found["certainty"]) == ("stock-out", "certain")
    assert message in found["lines"][0]["text"]
    assert "`tpuflex up --stack dev` requests capacity again" in found["next"]


def test_a_host_without_docker(project: Project) -> None:
    """`up` requests the capacity again that the test before could not get, and the host has no
    docker. Which runtime version has one is a rule of the emulated docker; once it has, the same
    capacity boots again, and serves."""
    project.strict(docker={"preinstalled": False, "installable": False})
    project.type("up", "--yes", code=7)
    found = project.diagnosed(7)
    project.strict(docker={"preinstalled": True, "installable": True})

    assert (found["class"], found["certainty"]) == ("docker", "certain")
    assert "runtime_version" in found["next"]
    project.type("reboot", "--yes")
    assert project.diagnosed(0)["state"] == "serves"
