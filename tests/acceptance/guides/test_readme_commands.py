"""The section on plain Pulumi of docs/pulumi.md, typed as it is printed, on a fresh clone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from embedded_cloud import daemon
from tests.acceptance.plain_pulumi import plain_pulumi
from tests.checkpoints import tiny
from tests.docs.typed_pages import PLAIN, untyped
from tests.engine.embedded import ROOT, write_project
from tests.engine.readme_shell import Shell, commands
from tpuflex.engine.find import Engine
from tpuflex.program import main

pytestmark = [pytest.mark.engine, pytest.mark.timeout(240)]

_ENTER = 'eval "$(tpuflex emulator env)"'
#: What is answered to a question in a terminal, and is not typed on a command's line.
_AGREED = {"pulumi up --stack dev": " --yes --skip-preview"}


@pytest.fixture
def clone(tmp_path: Path, pulumi_engine: Engine) -> Iterator[Shell]:
    """A fresh clone with small weights, beside an embedded cloud whose hosts run nothing."""
    root = write_project(tmp_path / "clone")
    tiny(root / "weights")
    tools = tmp_path / "bin"
    tools.mkdir(mode=0o700)
    (tools / "pulumi").symlink_to(pulumi_engine.path)
    path = f"{tools}:{ROOT / '.venv' / 'bin'}:/usr/bin:/bin"
    state = root / ".tpuflex" / "emulator"
    daemon.start(state, port=0, stub_hosts=True)
    try:
        yield Shell(root, {"PATH": path, "HOME": str(tmp_path)})
    finally:
        daemon.stop(state)
        shutil.rmtree(root / ".tpuflex")


def pin(root: Path, manifest: str | None) -> None:
    """Write the weights' source, and the hash as the comment says, to the stack file."""
    file = root / "stacks" / "Pulumi.dev.yaml"
    document = yaml.safe_load(file.read_text())
    weights = {"source": "./weights"} | ({"manifest_sha256": manifest} if manifest else {})
    document["config"]["tpuflex:model"]["weights"] = weights
    file.write_text(yaml.safe_dump(document))


def test_the_commands_of_the_page(clone: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each succeeds, in this order and without any other; the stack is up, and goes again."""
    pin(clone.root, None)
    lines = commands("docs/pulumi.md", "## Plain Pulumi")
    before = lines.index(_ENTER)
    for line in lines[:before]:
        clone.type(line)
    clone.enter(_ENTER)
    for name, value in clone.environ.items():
        if name.startswith(("CLOUDSDK_", "GOOGLE_", "PULUMI_", "STORAGE_")):
            monkeypatch.setenv(name, value)  # the program runs in this process
    engine = Path(clone.type("command -v pulumi").strip())
    with plain_pulumi(engine, clone.root, clone.environ, main) as pulumi:
        clone.environ = dict(pulumi.environ)
        for line in lines[before + 1 :]:
            said = clone.type(line + _AGREED.get(line, ""), printed=line)
            if "weights hash" in line:
                pin(clone.root, re.findall(r"[0-9a-f]{64}", said)[0])

        assert clone.type("pulumi stack output lifecycle --stack dev") == "active\n"
        clone.type("pulumi destroy --stack dev --yes --skip-preview")
    assert untyped(PLAIN, clone.typed) == []
