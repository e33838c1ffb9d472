"""The built wheel in an empty directory: everything works without this repository's tree.

The wheel is installed into an environment of its own, which sees the packages that tpuflex needs
and not the checkout. The engine is the real one. The life of a stack is in
tests/engine/test_end_to_end.py, with a real host.
"""

from __future__ import annotations

import json
import struct
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engine.embedded import ROOT, pulumi_engine
from tests.wheel.installed import STUB_CLOUD, Installed, installed
from tpuflex.engine.find import Engine

__all__ = ["installed", "pulumi_engine"]

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

#: `pulumi preview` with the project's own program, as the language host of Pulumi would run it.
_PLAIN_PREVIEW = """
import os, pathlib, runpy, sys
sys.path.append(sys.argv[1])
from tests.acceptance.plain_pulumi import plain_pulumi
program = lambda: runpy.run_path("__main__.py")
with plain_pulumi(sys.argv[2], pathlib.Path.cwd(), dict(os.environ), program) as pulumi:
    pulumi("stack", "init", "plain")
    print(pulumi("preview").stdout)
"""


@pytest.fixture(scope="module")
def project(installed: Installed, pulumi_engine: Engine) -> Iterator[Path]:
    """What `tpuflex init` makes there, with a tiny checkpoint; this checkout's engine and image."""
    installed.tpuflex("init", "--cloud", "embedded", "--weights", "checkpoint")
    write_checkpoint(installed.directory / "checkpoint")
    home = installed.directory / ".tpuflex"
    home.mkdir(mode=0o700)
    if pulumi_engine.source != "path":
        (home / "engine").symlink_to(pulumi_engine.path.parents[1])
    else:
        installed.environ["PATH"] = f"{pulumi_engine.path.parent}:{installed.environ['PATH']}"
    image = ROOT / ".tpuflex" / "vllm"
    image.mkdir(parents=True, exist_ok=True)
    (home / "vllm").symlink_to(image)
    started = installed.run("python", "-P", "-c", STUB_CLOUD, str(home / "emulator"))
    assert started.returncode == 0, started.stderr
    try:
        yield installed.directory
    finally:
        installed.run("tpuflex", "emulator", "stop")


def write_checkpoint(directory: Path) -> None:
    """A checkpoint of a hundred numbers."""
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "tokenizer.json").write_text("{}")
    tensor = {"weight": {"dtype": "F32", "shape": [100], "data_offsets": [0, 400]}}
    header = json.dumps(tensor).encode()
    content = struct.pack("<Q", len(header)) + header + bytes(400)
    (directory / "model.safetensors").write_bytes(content)


def test_what_is_in_it(installed: Installed) -> None:
    """Everything that is read when tpuflex runs, and no tests; startup scripts as in the tree."""
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    packages = {"tpuflex", "embedded_cloud", "pulumi_plugin"}

    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == packages
    for folder in ("startup", "stacks"):
        here = {f"tpuflex/{folder}/{file.name}" for file in (ROOT / folder).iterdir()}
        assert {name for name in names if name.startswith(f"tpuflex/{folder}/")} == {
            name for name in here if not name.endswith("__pycache__")
        }
    data = [
        file.relative_to(ROOT / "infra").as_posix()
        for package in packages
        for file in (ROOT / "infra" / package).rglob("*")
        if file.is_file() and "__pycache__" not in file.parts
    ]
    assert set(data) <= names


def test_the_manual(installed: Installed) -> None:
    """Every page is in it, and is shown without a network or a project."""
    names = set(zipfile.ZipFile(installed.wheel).namelist())
    docs = ROOT / "docs"
    pages = (*docs.glob("*.md"), *docs.glob("how-to/*.md"))
    here = {f"tpuflex/docs/{page.relative_to(docs).as_posix()}" for page in pages}

    assert {name for name in names if name.startswith("tpuflex/docs/")} == here
    assert "Codes of a host" in installed.tpuflex("docs", "troubleshooting#codes-of-a-host").stdout


def test_it_is_not_the_checkout(installed: Installed) -> None:
    """What runs is what was installed, not this tree."""
    where = installed.run("python", "-P", "-c", "import tpuflex; print(tpuflex.__file__)")

    assert where.stdout.startswith(str(installed.environment))


def test_plain_pulumi(installed: Installed, project: Path, pulumi_engine: Engine) -> None:
    """`pulumi preview` in a shell with the environment activated runs the generated program and
    finds the provider on PATH."""
    digest = json.loads(installed.tpuflex("weights", "hash", "--json").stdout)["manifest_sha256"]
    pin = f"model.weights.manifest_sha256={digest}"
    words = ("--stack", "plain", "--cloud", "embedded", "--weights", "checkpoint", "--set", pin)
    installed.tpuflex("init", *words)
    shell = json.loads(installed.tpuflex("emulator", "env", "--json").stdout)
    activated = f"{installed.environment / 'bin'}:{installed.environ['PATH']}"
    shell |= installed.environ | {"PATH": activated}
    python = installed.environment / "bin" / "python"

    done = subprocess.run(
        [python, "-P", "-c", _PLAIN_PREVIEW, ROOT, pulumi_engine.path],
        cwd=project,
        env=shell,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "tpuflex:tpu:QueuedResource" in done.stdout
    assert f"from $PATH at {installed.environment / 'bin'}" in done.stdout + done.stderr
