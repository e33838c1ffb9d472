"""Which engine runs, and why."""

from __future__ import annotations

import stat
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tpuflex.engine.find import Engine, cached_engine, ensure, search
from tpuflex.errors import EngineError


def executable(path: Path, says: str, code: int = 0) -> Path:
    """A program that prints ``says`` whatever it is asked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\nexit {code}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A PATH with a directory of our own before the system's shell."""
    (tmp_path / "bin").mkdir()
    return {"PATH": f"{tmp_path / 'bin'}", "HOME": str(tmp_path)}


def reasons(home: Path, environ: Mapping[str, str]) -> dict[str, str]:
    return {c.source: c.reason for c in search(home, environ).candidates}


class TestSearch:
    def test_path_comes_first(self, home: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """A new enough pulumi on PATH is taken even when there is a cached one."""
        on_path = executable(tmp_path / "bin" / "pulumi", "v3.260.1")
        cached = executable(cached_engine(home), "v3.256.0")

        found = search(home, environ)

        assert Engine(on_path, "3.260.1", "path") == found.engine
        assert f"usable, but {on_path} comes first" in [c.reason for c in found.candidates]
        assert str(cached) in [c.location for c in found.candidates]

    def test_old_one_on_path_is_passed_over(
        self, home: Path, environ: dict[str, str], tmp_path: Path
    ) -> None:
        """An engine older than 3.230.0 on PATH is not taken, and the reason says so."""
        executable(tmp_path / "bin" / "pulumi", "v3.100.0")
        cached = executable(cached_engine(home), "v3.256.0")

        found = search(home, environ)

        assert Engine(cached, "3.256.0", "cache") == found.engine
        assert reasons(home, environ)["path"] == "older than 3.230.0"

    @pytest.mark.parametrize(("says", "code"), [("", 0), ("v3.260.0", 1), ("dev", 0)])
    def test_broken_one_on_path(
        self, home: Path, environ: dict[str, str], tmp_path: Path, says: str, code: int
    ) -> None:
        """A pulumi that does not say a version is not taken."""
        executable(tmp_path / "bin" / "pulumi", says, code)

        assert search(home, environ).engine is None
        assert reasons(home, environ)["path"] == "`pulumi version` does not answer"

    def test_go_on_path(self, home: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """With a new enough Go on PATH and no engine, the build is what will happen."""
        go = executable(tmp_path / "bin" / "go", "go version go1.26.8 linux/amd64")

        assert f"will be built with Go 1.26.8 from {go}" == reasons(home, environ)["build"]

    def test_old_go(self, home: Path, environ: dict[str, str], tmp_path: Path) -> None:
        """A Go that is too old is named, and Go from PyPI takes its place."""
        go = executable(tmp_path / "bin" / "go", "go version go1.19 linux/amd64")

        expected = f"will be built with Go from PyPI ({go} is 1.19.0, older than 1.25.11)"
        assert expected == reasons(home, environ)["build"]

    def test_document(self, home: Path, environ: dict[str, str]) -> None:
        """The JSON document has the engine (or null) and every candidate in order."""
        document = search(home, environ).to_json()

        assert document["engine"] is None
        assert [c.source for c in search(home, environ).candidates] == [
            "path",
            "cache",
            "build",
        ]


Progress = Callable[[str], None]


class TestEnsure:
    def test_takes_what_is_there(self, home: Path, environ: dict[str, str]) -> None:
        """Nothing is installed when there is an engine."""
        cached = executable(cached_engine(home), "v3.256.0")

        assert cached == ensure(home, environ, print, installers=()).path

    def test_next_installer_after_a_failure(self, home: Path, environ: dict[str, str]) -> None:
        """When one way fails, the next is tried, and the failure is shown."""
        lines: list[str] = []

        def fails(_home: Path, _environ: Mapping[str, str], _progress: Progress) -> Engine:
            raise EngineError("no module proxy")

        def works(_home: Path, _environ: Mapping[str, str], _progress: Progress) -> Engine:
            return Engine(Path("/engine"), "3.272.0", "build")

        found = ensure(home, environ, lines.append, installers=(fails, works))

        assert Engine(Path("/engine"), "3.272.0", "build") == found
        assert lines == ["no module proxy"]

    def test_none_can_be_had(self, home: Path, environ: dict[str, str]) -> None:
        """Without any way to an engine the error says what was tried and names the ways out."""

        def fails(_home: Path, _environ: Mapping[str, str], _progress: Progress) -> Engine:
            raise EngineError("no network")

        with pytest.raises(EngineError) as caught:
            ensure(home, environ, print, installers=(fails,))

        assert "pulumi: not on PATH" in caught.value.message
        assert "no network" in caught.value.message
        assert "https://www.pulumi.com/docs/install/" in str(caught.value.hint)
        assert "https://go.dev/dl/" in str(caught.value.hint)

    def test_one_builder_at_a_time(self, home: Path, environ: dict[str, str]) -> None:
        """A process that waited for another builder takes what that one has built."""
        import fcntl
        import threading

        (home / "engine").mkdir(parents=True)
        lines: list[str] = []
        waiting = threading.Event()
        found: list[Engine] = []

        def note(line: str) -> None:
            lines.append(line)
            waiting.set()

        with (home / "engine" / "build.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            waiter = threading.Thread(
                target=lambda: found.append(ensure(home, environ, note, installers=()))
            )
            waiter.start()
            assert waiting.wait(60)
            executable(cached_engine(home), "v3.256.0")
        waiter.join(60)

        assert lines == ["Another process is installing the engine; waiting for it …"]
        assert [cached_engine(home)] == [engine.path for engine in found]
