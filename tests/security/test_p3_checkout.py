"""P3: what a command consists of, and what it makes, is nobody else's to change."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from embedded_cloud.private_files import private_directory
from pulumi_plugin import user_namespace
from tests.security.strangers import STRANGER, as_stranger, needs_second_uid
from tpuflex import project, trusted_files, trusted_users
from tpuflex.cli.cloud_environment import google_environment
from tpuflex.engine.find import cached_engine, ensure
from tpuflex.errors import AccessError
from tpuflex.project import open_project, trusted_home
from tpuflex.trusted_files import distrust, own_directory
from tpuflex.trusted_users import TRUSTED_UID_VARIABLE

_PACKAGES = ("tpuflex", "embedded_cloud", "pulumi_plugin")


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that holds the command's own sources and virtual environment."""
    root = tmp_path / "clone"
    for name in _PACKAGES:
        (root / "infra" / name / "inner").mkdir(parents=True)
        (root / "infra" / name / "inner" / "code.py").touch()
    packages = root / ".venv" / "lib" / "python3.11" / "site-packages"
    (packages / "grpc").mkdir(parents=True)
    (root / ".venv" / "bin").mkdir()
    (root / ".venv" / "pyvenv.cfg").touch()
    (root / "Pulumi.yaml").write_text("name: demo\nruntime: python\nmain: infra/\n")
    for place in (root, *root.rglob("*")):
        place.chmod(0o755)
    monkeypatch.setattr(project, "__file__", str(root / "infra" / "tpuflex" / "project.py"))
    monkeypatch.setattr(sys, "prefix", str(root / ".venv"))
    return root


@pytest.mark.parametrize(
    "place",
    [
        *("infra/tpuflex", "infra/embedded_cloud/inner", "infra/pulumi_plugin/inner/code.py"),
        *(".venv/lib", ".venv/pyvenv.cfg", ".venv/lib/python3.11"),
        *(".venv/lib/python3.11/site-packages", ".venv/lib/python3.11/site-packages/grpc"),
    ],
)
def test_code_of_our_own_that_others_may_change_is_refused(checkout: Path, place: str) -> None:
    """S4: a single file or directory of the sources or the environment is enough to refuse."""
    assert open_project(checkout, {}).root == checkout
    (checkout / place).chmod(0o777)
    with pytest.raises(AccessError, match="Refused to run anything") as caught:
        open_project(checkout, {})
    assert str(checkout / place) in caught.value.message


def test_rows_that_others_may_change_are_refused(checkout: Path) -> None:
    """S4: catalog.yaml says what a run costs and how many chips it has."""
    (checkout / "catalog.yaml").write_text("prices: []\n")
    (checkout / "catalog.yaml").chmod(0o644)
    assert open_project(checkout, {}).root == checkout

    (checkout / "catalog.yaml").chmod(0o666)

    with pytest.raises(AccessError, match=r"catalog\.yaml"):
        open_project(checkout, {})


@pytest.mark.parametrize(("mode", "writers"), [("g+w", "g"), ("o+w", "o"), ("go+w", "go")])
def test_one_command_mends_all(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, mode: str, writers: str
) -> None:
    """S4: one error counts all such files, and the command that it names mends them all."""
    monkeypatch.setattr(trusted_files, "is_own_group", lambda *_: False)
    subprocess.run(["chmod", "-R", mode, checkout], check=True)
    with pytest.raises(AccessError, match=r"So can \d+ more") as caught:
        open_project(checkout, {})
    command = caught.value.hint.removeprefix("Run: ")
    assert command == f"chmod -R {writers}-w {checkout}"
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert open_project(checkout, {}).root == checkout


def test_a_clone_with_a_group_of_ones_own_passes(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: with umask 002, where every user has a group, a clone is not refused."""
    monkeypatch.setattr(trusted_files, "is_own_group", lambda *_: True)
    subprocess.run(["chmod", "-R", "g+w", checkout], check=True)
    assert open_project(checkout, {}).root == checkout


def test_an_engine_directory_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    """S4: the error names the command that mends it, and no engine is built there."""
    engine = cached_engine(tmp_path)
    engine.parent.mkdir(parents=True)
    engine.touch(mode=0o755)
    engine.parent.chmod(0o757)
    built = list[str]()
    with pytest.raises(AccessError) as caught:
        ensure(tmp_path, {"PATH": ""}, built.append, installers=())
    assert caught.value.hint == f"Run: chmod o-w {engine.parent}"
    assert not built


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """S4: a new state directory and its backend are 0700, and the next command takes them."""
    before = os.umask(umask)
    try:
        home = tmp_path / "a" / "home"
        google_environment({"HOME": str(tmp_path)}, home)
        private_directory(tmp_path / "b" / "home" / "emulator")
    finally:
        os.umask(before)
    made = [home.parent, home, home / "backend", *(tmp_path / "b").rglob("*"), tmp_path / "b"]
    assert {oct(place.stat().st_mode & 0o777) for place in made} == {"0o700"}
    assert trusted_home(tmp_path, {"TPUFLEX_HOME": str(home)}) == home
    own_directory(home)


def test_the_overflow_uid_is_nobody_to_trust(tmp_path: Path) -> None:
    """S4: in a user namespace every user whom it does not map has that uid."""
    overflow = Path("/proc/sys/kernel/overflowuid").read_text().strip()
    with pytest.raises(AccessError, match="stands for every user"):
        distrust(tmp_path, {TRUSTED_UID_VARIABLE: overflow})


@needs_second_uid
def test_no_hint_to_trust_the_overflow_uid(tmp_path: Path) -> None:
    """S4: the error gives the reason, and does not offer to trust that uid."""
    os.chown(tmp_path, STRANGER, STRANGER)
    found = distrust(tmp_path, {})
    assert found is not None
    assert TRUSTED_UID_VARIABLE not in found.remedy
    assert "namespace" in found.remedy


def test_an_unmapped_user_trusts_no_unmapped_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: who is nobody in a user namespace may not take others' files for their own."""
    monkeypatch.setattr(os, "geteuid", lambda: user_namespace.overflow_uid())
    everybody, few = tmp_path / "everybody", tmp_path / "few"
    everybody.write_text("         0          0 4294967295\n")
    few.write_text("         0       1000          1\n")
    monkeypatch.setattr(user_namespace, "_UID_MAP", few)
    assert trusted_users.trusted_users({}) == {0}
    monkeypatch.setattr(user_namespace, "_UID_MAP", everybody)
    assert trusted_users.trusted_users({}) == {0, user_namespace.overflow_uid()}


def test_no_python_of_ours_looks_into_the_current_directory() -> None:
    """S4: whoever owns that directory would say what `-m venv` or `import torch` is."""
    root = Path(__file__).parents[2]
    sources = [
        *(root / "infra").rglob("*.py"),
        *(root / "benchmarks").rglob("*.py"),
        root / "infra" / "plugin" / "pulumi-resource-tpuflex",
        root / "Makefile",
    ]
    # The start of a Python, and a module or program for it: with -P, -I, or an environment that
    # says so. `python3 -m vllm…` is what an image runs, in a directory of the container's own.
    starts = re.compile(
        r"(sys\.executable|str\((?:self\.|run\.)?python\)|\[python|\"\$python\"|/python|\(PYTHON\))"
        r"[\"',\s*]*(?P<option>-[A-Za-z])\b"
    )
    found = [
        (source.name, match[0], match["option"])
        for source in sources
        for match in starts.finditer(source.read_text("utf-8"))
        if not match.string[: match.start()].endswith("PYTHONSAFEPATH=1 $")
    ]
    assert len(found) >= 15
    assert [entry for entry in found if entry[2] not in ("-P", "-I")] == []


def test_a_child_does_not_get_the_token_for_the_hub() -> None:
    """Engines, plugins and pip have no use for it."""
    given = {"HF_TOKEN": "hf_x", "HUGGING_FACE_HUB_TOKEN": "hf_x", "HF_ENDPOINT": "https://m.test"}
    environ = trusted_files.child_environment(given)
    assert "hf_x" not in environ.values()
    assert environ["HF_ENDPOINT"] == "https://m.test"


def test_a_planted_module_is_not_imported(tmp_path: Path) -> None:
    """S4: a Python that a command starts in another user's directory imports nothing from it."""
    for name in ("venv", "tpuflex", "pip"):
        (tmp_path / f"{name}.py").write_text("print('planted')\n")
    plain = {name: text for name, text in os.environ.items() if name != "PYTHONSAFEPATH"}
    environ = trusted_files.child_environment(plain)
    for name in ("venv", "tpuflex"):
        done = subprocess.run(
            [sys.executable, "-m", name, "--help"],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert "planted" not in done.stdout


@needs_second_uid
def test_go_of_others_is_not_run(tmp_path: Path) -> None:
    """S4: not even asked for its version, by the path, through a link, or by the build."""
    from tpuflex.engine.find import search

    canary, good, bad = tmp_path / "ran", tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    planted = bad / "go"
    planted.write_text(f"#!/bin/sh\ntouch {canary}\necho go version go1.99.0\n")
    planted.chmod(0o755)
    bad.chmod(0o777)
    (good / "go").symlink_to(planted)
    for path in (bad, good):
        found = search(tmp_path / "home", {"PATH": f"{path}:/usr/bin:/bin"})
        assert "1.99" not in found.candidates[-1].reason
    assert not canary.exists()


@needs_second_uid
def test_a_refused_program_does_not_hide_a_good_one(tmp_path: Path) -> None:
    """S4: the next `pulumi` on PATH is the one that runs."""
    from tpuflex.engine.find import search

    for name in ("bad", "good"):
        (tmp_path / name).mkdir()
        engine = tmp_path / name / "pulumi"
        engine.write_text("#!/bin/sh\necho v3.256.0\n")
        engine.chmod(0o755)
    (tmp_path / "bad").chmod(0o777)
    path = f"{tmp_path / 'bad'}:{tmp_path / 'good'}:/usr/bin:/bin"
    found = search(tmp_path / "home", {"PATH": path}).engine
    assert found is not None
    assert found.path == tmp_path / "good" / "pulumi"


_WITHOUT = """
import json, sys
sys.path.insert(0, sys.argv[1])
from tpuflex.trusted_files import trusted_path
print(json.dumps(trusted_path({"PATH": f"{sys.argv[2]}:/usr/bin"})))
"""


@needs_second_uid
def test_a_directory_that_cannot_be_looked_at_is_left_out(tmp_path: Path) -> None:
    """S4: an entry of PATH below another user's closed home is no failure of the command."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    infra = Path(__file__).parents[2] / "infra"
    kept, left_out = as_stranger(_WITHOUT, str(infra), str(closed / "bin" / "more"))
    assert kept == "/usr/bin"
    assert "cannot be looked at" in left_out[0]
