"""The SDK that the engine is built with opens its ports to the engine's user only."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.engine.published_modules import UTIL, published_sdk
from tpuflex.engine import listeners
from tpuflex.engine.build import LOCK, recipe
from tpuflex.engine.changed_module import Change
from tpuflex.engine.listeners import CHANGES, OWNERS_LISTENER, close_to_others
from tpuflex.errors import EngineError


@pytest.fixture
def sdk(tmp_path: Path) -> Path:
    published_sdk(tmp_path / "sdk")
    return tmp_path / "sdk"


class TestChanges:
    def test_every_listener_is_the_owners(self, sdk: Path) -> None:
        """Each call is replaced, the package is imported, and the listener is there."""
        close_to_others(sdk)

        for change in CHANGES:
            text = (sdk / UTIL / change.file).read_text()
            assert change.new in text
            assert change.old not in text.replace(change.new, "")
            imported = f'import "{listeners.SDK}/{UTIL}/owneronly"'
            package = f"package {Path(change.file).parent.name}"
            assert f"{package}\n\n{imported}\n" in text
        assert (sdk / UTIL / "owneronly" / "owneronly.go").read_bytes() == (
            OWNERS_LISTENER.read_bytes()
        )

    @pytest.mark.parametrize("change", CHANGES, ids=lambda change: f"{change.file}: {change.old}")
    @pytest.mark.parametrize("times", [0, 2])
    def test_exactly_one_match(self, sdk: Path, change: Change, times: int) -> None:
        """What is not there exactly once ends the build, and the error says what and where."""
        file = sdk / UTIL / change.file
        file.write_text(file.read_text().replace(change.old, f"{change.old}\n" * times))

        with pytest.raises(EngineError) as caught:
            close_to_others(sdk)

        assert f"{change.file} of {listeners.SDK} has {times} times" in caught.value.message
        assert "docs/adr/0019-engine-for-its-owner.md" in str(caught.value.hint)

    def test_missing_file(self, sdk: Path) -> None:
        """A file that the SDK no longer has ends the build."""
        (sdk / UTIL / "rpcutil" / "serve.go").unlink()

        with pytest.raises(EngineError, match=r"has no rpcutil/serve\.go"):
            close_to_others(sdk)

    @pytest.mark.parametrize(
        "call",
        [
            'net.Listen("tcp", a)',
            'net.ListenTCP("tcp", a)',
            "net.FileListener(f)",
            "http.ListenAndServe(a, nil)",
            "net.ListenConfig{}",
        ],
    )
    def test_further_listener(self, sdk: Path, call: str) -> None:
        """A listener that the table does not know ends the build; tests may listen."""
        (sdk / "go" / "new.go").write_text(f"package new\n\nvar l = {call}\n")
        (sdk / "go" / "new_test.go").write_text(f"package new\n\nvar l = {call}\n")

        with pytest.raises(EngineError, match=r"every user in go/new\.go\."):
            close_to_others(sdk)


class TestRecipe:
    def test_changes_with_the_listener(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """An engine with another listener, another table or other modules has another recipe."""
        lock = tmp_path / "lock"
        shutil.copytree(LOCK, lock)
        recipes = {recipe()}
        assert listeners.recipe(lock) == recipe()

        (lock / "go.mod").write_text("module other\n")
        recipes.add(listeners.recipe(lock))
        monkeypatch.setattr(listeners, "CHANGES", CHANGES[1:])
        recipes.add(listeners.recipe(lock))
        other = tmp_path / "owneronly.go"
        other.write_text("package owneronly\n")
        monkeypatch.setattr(listeners, "OWNERS_LISTENER", other)
        recipes.add(listeners.recipe(lock))

        assert len(recipes) == 4


@pytest.mark.skipif(shutil.which("gofmt") is None, reason="no gofmt on PATH")
def test_listener_is_formatted() -> None:
    """The Go file is as gofmt writes it."""
    gofmt = shutil.which("gofmt")
    assert gofmt is not None
    listed = subprocess.run(
        [gofmt, "-l", OWNERS_LISTENER], capture_output=True, text=True, check=True
    )
    assert (listed.stdout, listed.stderr) == ("", "")
