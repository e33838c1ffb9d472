"""Tables that an engine makes when they are needed."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.engine.embedded import ROOT
from tests.engine.published_modules import published
from tpuflex.engine.changed_module import Change
from tpuflex.engine.find import ensure
from tpuflex.engine.late_tables import MODULES, make_late
from tpuflex.errors import EngineError

EACH = [(module, change) for module, changes in MODULES.items() for change in changes]


@pytest.mark.parametrize("module", MODULES)
def test_nothing_is_made_at_the_start(module: str, tmp_path: Path) -> None:
    """Every change is in its file once, in place of what was there."""
    published(tmp_path, MODULES[module])
    make_late(module, tmp_path)
    for change in MODULES[module]:
        text = (tmp_path / change.file).read_text()
        assert change.new in text
        assert text.count(change.old) == change.new.count(change.old)


@pytest.mark.parametrize(("module", "change"), EACH)
@pytest.mark.parametrize("times", [0, 2])
def test_another_version(module: str, change: Change, times: int, tmp_path: Path) -> None:
    """A module that is not the one that a change is for ends the build, with the place."""
    published(tmp_path, MODULES[module])
    file = tmp_path / change.file
    file.write_text(file.read_text().replace(change.old, f"{change.old}\n" * times))
    with pytest.raises(EngineError) as caught:
        make_late(module, tmp_path)
    assert f"{change.file} of {module} has {times} times, not once" in caught.value.message
    assert "docs/adr/0039-tables-when-they-are-needed.md" in str(caught.value.hint)


@pytest.mark.engine
def test_the_engine_that_is_built_starts_without_tables() -> None:
    """No list of passwords is made before the engine does anything: Go says what is."""
    engine = ensure(ROOT / ".tpuflex", os.environ, print)
    if engine.source == "path":
        pytest.skip("an engine from elsewhere starts as it was published")
    environment = {**os.environ, "GODEBUG": "inittrace=1", "PULUMI_SKIP_UPDATE_CHECK": "true"}
    said = subprocess.run(
        [engine.path, "version"], env=environment, capture_output=True, text=True, check=True
    ).stderr
    made = re.findall(r"^init (\S+) @\S+ ms, \S+ ms clock, (\d+) bytes", said, re.MULTILINE)
    lists = [int(size) for package, size in made if package.endswith("/zxcvbn-go/frequency")]
    assert len(lists) == 2
    assert max(lists) < 1_000_000


@pytest.mark.engine
@pytest.mark.parametrize(
    ("value", "refused"),
    [("password123", False), ("correct horse", False), ("xK9#mQ2$vL7@pR4z", True)],
)
def test_what_looks_like_a_secret_is_refused(value: str, refused: bool, tmp_path: Path) -> None:
    """The engine knows common words and passwords, whose list it makes when it is asked."""
    engine = ensure(ROOT / ".tpuflex", os.environ, print)
    (tmp_path / "Pulumi.yaml").write_text("name: shop\nruntime: yaml\n")
    (tmp_path / "Pulumi.dev.yaml").write_text("config: {}\n")
    environment = {
        **os.environ,
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": "a",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(engine.path), "--non-interactive", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    assert run("stack", "init", "dev").returncode == 0
    done = run("config", "set", "token", value, "--stack", "dev")
    assert (done.returncode != 0) is refused, done.stderr
    assert ("looks like a secret" in done.stderr) is refused
