"""P3: a project that others could change is refused on every way in; what is made is private."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pulumi
import pytest

from pulumi_plugin import user_namespace
from tests.security.strangers import STRANGER, needs_second_uid
from tpuflex import plugin, program
from tpuflex.cli.completion import VARIABLE, answer_shell
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run, tpuflex
from tpuflex.engine.find import cached_engine
from tpuflex.errors import AccessError
from tpuflex.files import trusted as trusted_files
from tpuflex.files.trusted import (
    TRUSTED_UID_VARIABLE,
    child_environment,
    read_private,
    require_own,
)
from tpuflex.project import open_project
from tpuflex.stack.environment import google_environment

_PROJECT = "name: demo\nruntime: python\nmain: infra/\nstackConfigDir: stacks\n"
_GROUP = 54_321
Spoil = Callable[[Path], None]


def _theirs(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def _everybodys(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def _a_groups(path: Path) -> None:
    os.chown(path, -1, _GROUP)
    path.chmod(path.stat().st_mode | 0o020)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with everything that is looked at, and more."""
    root = tmp_path / "project"
    for folder in ("infra", "stacks", ".tpuflex/engine"):
        (root / folder).mkdir(parents=True)
    (root / "Pulumi.yaml").write_text(_PROJECT)
    for name in ("stacks/Pulumi.dev.yaml", "catalog.yaml"):
        (root / name).touch()
    for place in (root, *root.rglob("*")):
        place.chmod(0o755)
    return root


@needs_second_uid
@pytest.mark.parametrize("spoil", [_theirs, _everybodys, _a_groups])
@pytest.mark.parametrize(
    "place", [".", "Pulumi.yaml", "stacks", "stacks/Pulumi.dev.yaml", "catalog.yaml", ".tpuflex"]
)
def test_a_project_that_others_may_change_is_refused(
    project: Path, place: str, spoil: Spoil
) -> None:
    """S4: its root, the files that are read, its state directory."""
    assert open_project(project / "infra", {}).root == project
    spoil((project / place).resolve())
    with pytest.raises(AccessError, match=re.escape(f"Refused to use {project / place}: ")) as no:
        open_project(project / "infra", {})
    assert no.value.hint


def _command(*words: str) -> Callable[[], object]:
    return lambda: run(list(words), Invocation(environ={"PATH": ""}))


@needs_second_uid
@pytest.mark.parametrize(
    "way",
    [
        *(_command("preview"), _command("engine", "--install"), _command("emulator", "start")),
        *(_command("memory"), lambda: plugin.main([]), program.main),
    ],
)
def test_nothing_of_a_planted_project_is_run(
    way: Callable[[], object],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """S4: another user has put it, with an engine, above the working directory: commands, the
    provider and the program of a plain `pulumi up` refuse it alike."""
    canary = project / "ran"
    engine = cached_engine(project / ".tpuflex")
    engine.parent.mkdir()
    engine.write_text(f"#!/bin/sh\necho v3.256.0\ntouch {canary}\n")
    engine.chmod(0o755)
    for path in (project, *project.rglob("*")):
        _theirs(path)
    (project / "mine").mkdir()
    monkeypatch.chdir(project / "mine")
    try:
        code = way()
    except (SystemExit, pulumi.RunError) as error:
        code, said = AccessError.exit_code, str(error)
    else:
        said = capsys.readouterr().err
    assert code == AccessError.exit_code
    assert "Refused to use" in said
    assert not canary.exists()


def _stacks_of_others(project: Path) -> None:
    _everybodys(project / "stacks")


def _aliases(project: Path) -> None:
    """Some hundred bytes that stand for 10,000,000,000 values."""
    lines = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 11)]
    text = "name: demo\na0: &a0 [x]\n" + "".join(lines) + "stackConfigDir: *a10\n"
    (project / "Pulumi.yaml").write_text(text)


@pytest.mark.parametrize("change", [_stacks_of_others, _aliases])
def test_tab_offers_nothing_of_what_no_command_would_read(
    change: Callable[[Path], None],
    project: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """P3: of a project that others may change, or whose file stands for more than memory holds."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("COMP_WORDS", "tpuflex up -s ")
    monkeypatch.setenv("COMP_CWORD", "3")
    monkeypatch.setenv(VARIABLE, "bash_complete")
    answer_shell(tpuflex)
    assert capsys.readouterr().out == "plain,dev\n"
    change(project)
    answer_shell(tpuflex)
    assert capsys.readouterr().out.strip() == ""


def test_one_command_mends_all(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: an error counts what it found, and the command that it names mends that."""
    monkeypatch.setattr(trusted_files, "_is_own_group", lambda *_: False)
    places = [project / "stacks", project / "stacks/Pulumi.dev.yaml", project / "catalog.yaml"]
    places[0].chmod(0o775)
    places[1].chmod(0o646)
    places[2].chmod(0o666)
    with pytest.raises(AccessError, match=r"by its group\. So can 2 more\.") as caught:
        open_project(project, {})
    command = str(caught.value.hint).removeprefix("Run: ")
    assert command == f"chmod go-w {' '.join(map(str, places))}"
    subprocess.run(["/bin/sh", "-c", command], check=True)
    assert open_project(project, {}).root == project


@needs_second_uid
def test_a_state_directory_elsewhere(project: Path) -> None:
    """S4: where TPUFLEX_HOME or a link in the project leads is judged, and a missing one is ours to
    make."""
    elsewhere = project.parent / "elsewhere"
    environ = {"TPUFLEX_HOME": str(elsewhere)}
    assert open_project(project, environ).home == elsewhere
    elsewhere.mkdir()
    (project / ".tpuflex/engine").rmdir()
    (project / ".tpuflex").rmdir()
    (project / ".tpuflex").symlink_to(elsewhere)
    assert open_project(project, {}).root == project
    _theirs(elsewhere)
    for named in (environ, {}):
        with pytest.raises(AccessError, match="Refused to use"):
            open_project(project, named)


@needs_second_uid
def test_what_passes(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: a group of one's own, as with umask 002, unless an access control list adds others;
    another owner whom the user names."""
    _a_groups(project)
    monkeypatch.setattr(trusted_files, "_is_own_group", lambda *_: True)
    require_own([project], {})
    monkeypatch.setattr(trusted_files, "_has_list", lambda _: True)
    with pytest.raises(AccessError, match="by its group"):
        require_own([project], {})
    project.chmod(0o755)
    os.chown(project, _GROUP, _GROUP)
    with pytest.raises(AccessError, match=f"belongs to uid {_GROUP}") as caught:
        require_own([project], {})
    assert f"{TRUSTED_UID_VARIABLE}={_GROUP}" in str(caught.value.hint)
    require_own([project], {TRUSTED_UID_VARIABLE: str(_GROUP)})
    with pytest.raises(AccessError, match="no user id"):
        require_own([project], {TRUSTED_UID_VARIABLE: "me"})


def test_whose_group_it_is() -> None:
    """S4: a group of nobody else passes; one that is unknown, or has other members, does not."""
    import grp
    import pwd

    me, root = os.geteuid(), pwd.getpwuid(0)
    assert trusted_files._is_own_group(root.pw_gid, frozenset({0, me})) or me != 0
    assert not trusted_files._is_own_group(_GROUP, frozenset({0, me}))
    others = [g.gr_gid for g in grp.getgrall() if set(g.gr_mem) - {root.pw_name}]
    assert not any(trusted_files._is_own_group(gid, frozenset({0})) for gid in others)


@needs_second_uid
def test_a_uid_of_several_users_is_not_trusted(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S4: in a user namespace every user whom it does not map has the overflow uid: it is nobody's
    own, and cannot be named, nor is that advised."""
    few = project / "few"
    few.write_text("         0       1000          1\n")
    monkeypatch.setattr(user_namespace, "_UID_MAP", few)
    overflow = user_namespace.overflow_uid()
    os.chown(project, overflow, overflow)
    monkeypatch.setattr(os, "geteuid", lambda: overflow)
    with pytest.raises(AccessError, match="namespace") as caught:
        require_own([project], {TRUSTED_UID_VARIABLE: str(overflow)})
    assert TRUSTED_UID_VARIABLE not in str(caught.value.hint)


@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077])
def test_what_is_made_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    """S4: a new state directory and its backend are 0700, and the next command takes them."""
    before = os.umask(umask)
    try:
        home = tmp_path / "a" / "home"
        google_environment({"HOME": str(tmp_path)}, home)
    finally:
        os.umask(before)
    made = [home.parent, home, home / "backend"]
    assert {oct(place.stat().st_mode & 0o777) for place in made} == {"0o700"}
    require_own(made, {})


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


def test_a_child_gets_no_token_for_the_hub_and_no_module_of_the_current_directory(
    tmp_path: Path,
) -> None:
    """S4: engines, plugins, git and pip have no use for the one, and must not find the other."""
    given = {"HF_TOKEN": "hf_x", "HUGGING_FACE_HUB_TOKEN": "hf_x", "HF_ENDPOINT": "https://m.test"}
    environ = child_environment({**os.environ, **given})
    assert "hf_x" not in environ.values()
    assert environ["HF_ENDPOINT"] == "https://m.test"
    (tmp_path / "venv.py").write_text("print('planted')\n")
    done = subprocess.run(
        [sys.executable, "-m", "venv", "--help"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "planted" not in done.stdout


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"sk-1\n", 0o640, "others may read or change it"),
        (b"sk-1\n", 0o602, "others may read or change it"),
        (b" \n", 0o600, "it is empty, longer than 64 KiB, or no text"),
        (b"\xff\xfe", 0o600, "it is empty, longer than 64 KiB, or no text"),
        (b"x" * 70_000, 0o600, "it is empty, longer than 64 KiB, or no text"),
        (None, 0o600, "cannot be read"),
    ],
)
def test_a_file_with_a_secret(tmp_path: Path, content: bytes | None, mode: int, why: str) -> None:
    """Nobody but its user may read it; what others may, and what is none, is refused, with a
    remedy and without what is in it."""
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)

    with pytest.raises(AccessError, match=why) as caught:
        read_private(path)

    assert caught.value.hint
    assert "sk-1" not in str(caught.value)
