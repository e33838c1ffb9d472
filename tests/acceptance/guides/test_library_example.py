"""docs/examples/library in a project outside of the tree, with nothing of ours on PATH (P12)."""

from __future__ import annotations

import runpy
import shutil
import sys
from pathlib import Path

import pytest
import yaml

from tests.acceptance.plain_pulumi import plain_pulumi
from tests.engine.embedded import ROOT, Embedded

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

EXAMPLE = ROOT / "docs" / "examples" / "library"


@pytest.fixture
def environ(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment of a shell in which no virtual environment is active."""
    found = {**embedded.environ, "PATH": "/usr/bin:/bin"}
    for variable, value in found.items():
        monkeypatch.setenv(variable, value)  # the program runs in this process
    return found


def project(directory: Path) -> Path:
    """The example as somebody copies it, with a virtual environment that has tpuflex."""
    copied = directory / "chat"
    shutil.copytree(EXAMPLE, copied)
    (copied / ".venv").symlink_to(sys.prefix)
    return copied


def test_p12_the_example_finds_its_provider(
    embedded: Embedded, environ: dict[str, str], tmp_path: Path
) -> None:
    """P12: `pulumi preview` starts the provider that Pulumi.yaml names by its path."""
    root = project(tmp_path)

    def program() -> None:
        runpy.run_path(str(root / "__main__.py"))

    with plain_pulumi(embedded.engine.path, root, environ, program) as pulumi:
        pulumi("stack", "init", "dev")
        shown = pulumi("preview", "--stack", "dev").stdout

    assert "tpuflex:tpu:QueuedResource" in shown


def test_p12_without_the_path_there_is_none(
    embedded: Embedded, environ: dict[str, str], tmp_path: Path
) -> None:
    """P12: what the test above shows is due to `plugins:`; PATH has no provider of ours."""
    root = project(tmp_path)
    document = yaml.safe_load((root / "Pulumi.yaml").read_text())
    del document["plugins"]
    (root / "Pulumi.yaml").write_text(yaml.safe_dump(document))

    def program() -> None:
        runpy.run_path(str(root / "__main__.py"))

    with plain_pulumi(embedded.engine.path, root, environ, program) as pulumi:
        pulumi("stack", "init", "dev")
        done = pulumi("preview", "--stack", "dev", check=False)

    assert done.returncode != 0
    assert "no resource plugin 'pulumi-resource-tpuflex' found" in done.stdout + done.stderr
