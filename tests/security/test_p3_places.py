"""P3: nothing is run that others could have put there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.security.strangers import STRANGER, needs_second_uid
from tpuflex import trusted_files, trusted_users
from tpuflex.cli.cloud import connect
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.main import run
from tpuflex.engine.find import cached_engine, search
from tpuflex.errors import AccessError
from tpuflex.project import open_project, trusted_home
from tpuflex.trusted_files import distrust, trusted_path
from tpuflex.trusted_users import TRUSTED_UID_VARIABLE

_PROJECT = """\
name: demo
runtime: {name: python, options: {virtualenv: .venv}}
main: infra/
stackConfigDir: stacks
plugins: {providers: [{name: demo, path: ./plugin}]}
"""
Spoil = Callable[[Path], None]


def _theirs(path: Path) -> None:
    os.chown(path, STRANGER, STRANGER)


def _everybodys(path: Path) -> None:
    path.chmod(path.stat().st_mode | 0o002)


def _a_groups(path: Path) -> None:
    os.chown(path, -1, 54_321)
    path.chmod(path.stat().st_mode | 0o020)


_SPOILT = [_theirs, _everybodys, _a_groups]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with everything that is run from it."""
    root = tmp_path / "project"
    for folder in (".venv/bin", "infra", "stacks", "plugin", ".tpuflex/engine"):
        (root / folder).mkdir(parents=True)
    (root / "Pulumi.yaml").write_text(_PROJECT)
    for name in ("stacks/Pulumi.dev.yaml", "plugin/pulumi-resource-demo"):
        (root / name).touch()
    return root


def _engine(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\necho v3.256.0\n")
    path.chmod(0o755)
    return path


@needs_second_uid
@pytest.mark.parametrize("spoil", _SPOILT)
@pytest.mark.parametrize(
    "place",
    [
        *(".", "..", "Pulumi.yaml", "stacks", "stacks/Pulumi.dev.yaml", "infra"),
        *(".venv", ".venv/bin", "plugin", "plugin/pulumi-resource-demo"),
        *(".tpuflex", ".tpuflex/engine"),
    ],
)
def test_a_project_that_others_may_change_is_refused(
    project: Path, place: str, spoil: Spoil
) -> None:
    """S4: its root, what is run from it, its state directory, and the directories above."""
    assert open_project(project / "infra", {}).root == project
    spoil((project / place).resolve())
    with pytest.raises(AccessError, match="Refused to run anything") as caught:
        open_project(project / "infra", {})
    assert str((project / place).resolve()) in caught.value.message
    assert caught.value.hint


@needs_second_uid
def test_a_planted_project_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S4: nothing is run of a project that another user has put into a directory above, such as
    /tmp."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    planted = _engine(cached_engine(shared / ".tpuflex"))
    canary = tmp_path / "ran"
    planted.write_text(f"#!/bin/sh\necho v3.256.0\ntouch {canary}\n")
    (shared / "Pulumi.yaml").write_text(_PROJECT)
    for path in (*shared.rglob("*"), shared / "Pulumi.yaml"):
        os.chown(path, STRANGER, STRANGER)
    mine = shared / "mine"
    mine.mkdir()
    monkeypatch.chdir(mine)
    for words in (["preview"], ["engine"], ["engine", "--install"], ["emulator", "start"]):
        invocation = Invocation(environ={"PATH": ""})
        assert run(words, invocation) == AccessError.exit_code, words
        assert "Refused to run anything" in capsys.readouterr().err
    assert not canary.exists()


@needs_second_uid
@pytest.mark.parametrize("spoil", _SPOILT)
def test_a_chosen_state_directory_is_looked_at_too(tmp_path: Path, spoil: Spoil) -> None:
    """S4: TPUFLEX_HOME, also through a symbolic link, and if it is not there yet."""
    chosen, link, shared = tmp_path / "chosen", tmp_path / "link", tmp_path / "shared"
    chosen.mkdir()
    link.symlink_to(chosen)
    environ = {"TPUFLEX_HOME": str(link)}
    assert trusted_home(tmp_path, environ) == chosen
    spoil(chosen)
    with pytest.raises(AccessError):
        trusted_home(tmp_path, environ)
    shared.mkdir()
    shared.chmod(0o1777)
    with pytest.raises(AccessError) as caught:
        trusted_home(tmp_path, {"TPUFLEX_HOME": str(shared / "new")})
    assert caught.value.hint == f"Run: mkdir -m 700 {shared / 'new'}"


@needs_second_uid
def test_what_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4: below a sticky directory; with umask 002 and a group of one's own; another owner whom
    the user names."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    mine = shared / "mine"
    mine.mkdir()
    assert distrust(mine, {}) is None
    mine.chmod(0o775)
    os.chown(mine, -1, 54_321)
    assert distrust(mine, {}) is not None
    monkeypatch.setattr(trusted_files, "is_own_group", lambda *_: True)
    assert distrust(mine, {}) is None
    monkeypatch.setattr(trusted_files, "_has_list", lambda _: True)
    assert distrust(mine, {}) is not None
    mine.chmod(0o755)
    os.chown(mine, 54_321, 54_321)
    found = distrust(mine, {})
    assert found is not None
    assert f"{TRUSTED_UID_VARIABLE}=54321" in found.remedy
    assert distrust(mine, {TRUSTED_UID_VARIABLE: "54321"}) is None
    with pytest.raises(AccessError, match="no user id"):
        distrust(mine, {TRUSTED_UID_VARIABLE: "me"})


def test_whose_group_it_is() -> None:
    """S4: a group of nobody else passes; one that is unknown, or has other members, does not."""
    import grp
    import pwd

    me, root = os.geteuid(), pwd.getpwuid(0)
    assert trusted_users.is_own_group(root.pw_gid, frozenset({0, me})) or me != 0
    assert not trusted_users.is_own_group(54_321, frozenset({0, me}))
    others = [g.gr_gid for g in grp.getgrall() if set(g.gr_mem) - {root.pw_name}]
    assert not any(trusted_users.is_own_group(gid, frozenset({0})) for gid in others)


@needs_second_uid
def test_a_link_of_another_user_is_one_too(tmp_path: Path) -> None:
    """S4: another user's link to a directory of ours is refused, because it may point elsewhere
    tomorrow; a link to itself is followed only so far."""
    target, link, circle = tmp_path / "target", tmp_path / "link", tmp_path / "circle"
    target.mkdir()
    link.symlink_to(target)
    assert distrust(link / "x", {}) is None
    os.chown(link, STRANGER, STRANGER, follow_symlinks=False)
    found = distrust(link / "x", {})
    assert found is not None
    assert found.place == link
    circle.symlink_to(circle)
    distrust(circle / "x", {})


@needs_second_uid
@pytest.mark.parametrize("spoil", _SPOILT)
def test_no_engine_on_path_that_others_may_change(tmp_path: Path, spoil: Spoil) -> None:
    """S4: the candidate is refused with the reason, and not even asked for its version."""
    canary = tmp_path / "ran"
    engine = _engine(tmp_path / "bin" / "pulumi")
    engine.write_text(f"#!/bin/sh\necho v3.256.0\ntouch {canary}\n")
    environ = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    spoil(tmp_path / "bin")
    found = search(tmp_path / "home", environ)
    assert found.engine is None
    assert found.candidates[0].reason.startswith("not run: ")
    assert str(tmp_path / "bin") in found.candidates[0].reason
    assert not canary.exists()


@needs_second_uid
@pytest.mark.parametrize("spoil", _SPOILT)
def test_the_engine_finds_no_program_of_others(tmp_path: Path, spoil: Spoil) -> None:
    """S4: it runs language hosts, plugins and interpreters from PATH: without the directories that
    others may write to, relative ones and empty entries (the current directory)."""
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.mkdir()
    bad.mkdir()
    spoil(bad)
    path, left_out = trusted_path({"PATH": f"{bad}:{good}::bin:/nonexistent/bin"})
    assert path == f"{good}:/nonexistent/bin"
    assert [entry.split(":")[0] for entry in left_out] == [str(bad), "bin"]


@needs_second_uid
@pytest.mark.parametrize("place", [".pulumi", ".pulumi/plugins"])
def test_no_plugin_of_others(tmp_path: Path, place: str) -> None:
    """S4: the gcp plugin that holds the credentials is run from PULUMI_HOME."""
    (tmp_path / ".pulumi" / "plugins").mkdir(parents=True)
    _theirs(tmp_path / place)
    project = _PROJECT.replace(" plugins", "")
    (tmp_path / "Pulumi.yaml").write_text(project.partition("plugins:")[0])
    (tmp_path / "infra").mkdir()
    (tmp_path / ".venv").mkdir()
    stacks = tmp_path / "stacks"
    stacks.mkdir()
    source = Path(__file__).parents[2] / "stacks" / "Pulumi.gemma-4-e4b-v6e-1.yaml"
    text = source.read_text().replace("my-project-id", "shop-project")
    (stacks / "Pulumi.dev.yaml").write_text(text)
    environ = {"HOME": str(tmp_path), "PATH": "", "GOOGLE_OAUTH_ACCESS_TOKEN": "x"}
    invocation = Invocation(environ=environ, directory=tmp_path)
    with pytest.raises(AccessError, match="Pulumi's directory"):
        connect(invocation, invocation.open_stack())
