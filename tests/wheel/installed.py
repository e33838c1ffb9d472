"""tpuflex installed from its wheel, for tests that must not see the checkout."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.engine.embedded import ROOT

_BUILD = (
    "from hatchling.builders.wheel import WheelBuilder; import sys;"
    " print(*WheelBuilder(sys.argv[1]).build(directory=sys.argv[2]))"
)

#: Starts the embedded cloud with hosts that run nothing.
STUB_CLOUD = (
    "import pathlib, sys; from embedded_cloud import daemon;"
    " daemon.start(pathlib.Path(sys.argv[1]), port=0, stub_hosts=True)"
)


@dataclass(frozen=True)
class Installed:
    """tpuflex from its wheel, in an empty directory."""

    wheel: Path
    environment: Path
    directory: Path
    environ: dict[str, str]

    def run(self, *words: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command of the environment, by its path: nothing is activated."""
        program, *arguments = words
        return subprocess.run(
            [self.environment / "bin" / program, *arguments],
            cwd=cwd or self.directory,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def tpuflex(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Type a command that succeeds."""
        done = self.run("tpuflex", *words)
        assert done.returncode == 0, f"{words}:\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The wheel, installed without an index; and a directory with nothing in it."""
    base = tmp_path_factory.mktemp("wheel")
    built = _run(sys.executable, "-P", "-c", _BUILD, str(ROOT), str(base))
    wheel = Path(built.stdout.strip())
    environment = base / "environment"
    _run(sys.executable, "-P", "-m", "venv", "--without-pip", str(environment))
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment)}))
    # A line of a .pth file is a place to look in after the environment's own; the .pth files that
    # are there, the checkout's among them, are not read.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    pip = (sys.executable, "-P", "-m", "pip", "--python", str(environment / "bin" / "python"))
    _run(*pip, "install", "--quiet", "--no-index", "--no-deps", str(wheel))
    directory = base / "empty"
    directory.mkdir()
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(base), "LANG": "C.UTF-8"}
    return Installed(wheel, environment, directory, environ)


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=240)
