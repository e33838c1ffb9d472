"""Wheel and source distribution on the lowest and the highest Python that pyproject.toml allows.

Each is installed into an environment that has what requirements/run.lock names and nothing else,
and the README's example is previewed from a project outside of the tree, by the real engine.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.wheel.pythons import environment, installed_files, pip, python, run
from tests.engine.embedded import ROOT, pulumi_engine
from tests.wheel.installed import STUB_CLOUD, Installed
from tpuflex.engine.find import Engine

__all__ = ["pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

VERSIONS = ("3.11", "3.13")
EXAMPLE = ROOT / "docs" / "examples" / "library"
_BUILD = (
    "import os, sys; from hatchling.build import build_sdist, build_wheel; os.chdir(sys.argv[1]);"
    " print(build_wheel(sys.argv[2]), build_sdist(sys.argv[2]))"
)
#: `pulumi preview` of the project in the present directory, as the language host would run it.
_PREVIEW = """
import os, pathlib, runpy, sys
sys.path.append(sys.argv[1])
from tests.acceptance.plain_pulumi import plain_pulumi
program = lambda: runpy.run_path("__main__.py")
with plain_pulumi(sys.argv[2], pathlib.Path.cwd(), dict(os.environ), program) as pulumi:
    pulumi("stack", "init", "dev")
    print(pulumi("preview", "--stack", "dev").stdout)
"""


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Wheel and source distribution, built once."""
    place = tmp_path_factory.mktemp("dist")
    wheel, source = run(sys.executable, "-P", "-c", _BUILD, ROOT, place).stdout.split()
    return place / wheel, place / source


@pytest.fixture(scope="session", params=VERSIONS)
def installed(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    built: tuple[Path, Path],
) -> Installed:
    """The wheel in an environment of a Python, with its dependencies; and a copy of the example,
    in which `.venv` is that environment."""
    found = python(request.param)
    base = tmp_path_factory.mktemp(f"python{request.param}")
    made = environment(found, base / "environment")
    pip(made, "--no-index", "--no-deps", built[0])
    shutil.copytree(EXAMPLE, base / "chat")
    (base / "chat" / ".venv").symlink_to(made)
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(base), "LANG": "C.UTF-8"}
    return Installed(built[0], made, base / "chat", environ)


@pytest.fixture
def cloud(installed: Installed) -> Iterator[dict[str, str]]:
    """An embedded cloud of that tpuflex, and the environment of a shell that points at it."""
    state = installed.directory / ".tpuflex"
    state.mkdir(mode=0o700)
    started = installed.run("python", "-P", "-c", STUB_CLOUD, state / "emulator")
    assert started.returncode == 0, started.stderr
    try:
        shell = json.loads(installed.tpuflex("emulator", "env", "--json").stdout)
        yield shell | installed.environ
    finally:
        installed.tpuflex("emulator", "stop")


def test_the_versions_are_the_ends_of_the_range() -> None:
    """What is tried is what pyproject.toml promises."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    assert asked == f">={VERSIONS[0]},<3.{int(VERSIONS[1].partition('.')[2]) + 1}"


def test_the_example_of_the_readme(
    installed: Installed,
    built: tuple[Path, Path],
    cloud: dict[str, str],
    pulumi_engine: Engine,
) -> None:
    """The example is previewed with what the wheel has installed, no environment on PATH; and the
    source distribution installs the same files."""
    done = subprocess.run(
        [installed.environment / "bin" / "python", "-P", "-c", _PREVIEW, ROOT, pulumi_engine.path],
        cwd=installed.directory,
        env=cloud,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "tpuflex:tpu:QueuedResource" in done.stdout
    assert "tpuflex:index:VllmEndpoint" in done.stdout

    of_the_wheel = installed_files(installed.environment)
    again = ("--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall")
    pip(installed.environment, *again, built[1])
    assert installed_files(installed.environment) == of_the_wheel
    assert "tpuflex/__init__.py" in of_the_wheel
