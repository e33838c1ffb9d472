"""The Pythons at hand, and environments of theirs with what the lock names and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.embedded import ROOT

_VERSION = "import sys, venv; print('%d.%d' % sys.version_info[:2])"


def python(version: str) -> Path:
    """A Python of ``version``, such as 3.11; skips the test where there is none."""
    for candidate in _candidates(version):
        asked = subprocess.run(
            [candidate, "-P", "-c", _VERSION], capture_output=True, text=True, check=False
        )
        if asked.stdout.strip() == version:
            return candidate
    pytest.skip(f"no Python {version}: neither on PATH nor among pyenv's versions")


def _candidates(version: str) -> Iterator[Path]:
    """Those of PATH first. What is there may be a shim of pyenv's that finds none."""
    name = f"python{version}"
    if (found := shutil.which(name)) is not None:
        yield Path(found)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    yield from sorted((pyenv / "versions").glob(f"{version}.*/bin/{name}"), reverse=True)


def environment(found: Path, directory: Path) -> Path:
    """An environment of ``found`` in ``directory`` with what requirements/run.lock names."""
    run(found, "-P", "-m", "venv", "--without-pip", directory)
    lock = ROOT / "requirements" / "run.lock"
    locked = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--requirement", lock)
    pip(directory, "--no-compile", *locked)
    return directory


def pip(environment: Path, *words: str | Path) -> None:
    """Install into ``environment`` with the pip of the checkout: a user's may be of any age."""
    program = environment / "bin" / "python"
    asked = ("--python", program, "install", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-P", "-m", "pip", *asked, *words)


def installed_files(environment: Path) -> dict[str, str]:
    """The hash of each file of tpuflex in ``environment``, but for what pip writes itself."""
    program = (
        "import importlib.metadata, json;"
        " files = importlib.metadata.distribution('tpuflex').files;"
        " print(json.dumps({str(f): f.hash.value for f in files if f.hash}))"
    )
    done = run(environment / "bin" / "python", "-P", "-c", program)
    found: dict[str, str] = json.loads(done.stdout)
    return {name: hash_ for name, hash_ in found.items() if _from_a_wheel(name)}


def _from_a_wheel(name: str) -> bool:
    inside, last = name.partition(".dist-info/")[1], name.rpartition("/")[2]
    return not (name.startswith("..") or (inside and last in ("direct_url.json", "INSTALLER")))


def run(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command that succeeds."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
    return done
