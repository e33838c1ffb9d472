"""What a change does to the stacks of a project, read from Git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tpuflex.deploy.base_commit import BaseCommit, KeyChange, StackChange, key_changes
from tpuflex.errors import NotFoundError
from tpuflex.project import Project, open_project

_IDENTITY = {
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.com",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
ENVIRON = {"PATH": os.environ["PATH"], **_IDENTITY}


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(root), *words], env=ENVIRON, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "change")


@pytest.fixture
def stacks(project: Path) -> Path:
    """The folder of the stack files of a project below the top of a repository, with a commit."""
    git(project.parent, "init", "--quiet", "--initial-branch", "main")
    other = (project / "stacks" / "Pulumi.dev.yaml").read_text()
    (project / "stacks" / "Pulumi.chat.yaml").write_text(f"# Another one.\n{other}")
    commit(project.parent)
    git(project.parent, "checkout", "--quiet", "-b", "change")
    return project / "stacks"


def opened(stacks: Path) -> Project:
    return open_project(stacks.parent, {})


def changes(stacks: Path, ref: str = "main") -> list[StackChange]:
    return list(BaseCommit(opened(stacks), ref, ENVIRON).changes())


def test_no_program_of_a_repository_is_run(stacks: Path, tmp_path: Path) -> None:
    """What `.git/config` and the hooks name is left alone."""
    canary, program = tmp_path / "ran", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {canary}\n")
    program.chmod(0o755)
    git(stacks, "config", "core.fsmonitor", str(program))
    assert changes(stacks) == []
    assert not canary.exists()


def test_each_kind_of_change(stacks: Path) -> None:
    """Added, changed and deleted stack files, committed or not, and nothing else."""
    dev = (stacks / "Pulumi.dev.yaml").read_text()
    (stacks / "Pulumi.dev.yaml").write_text(f"{dev}# changed\n")
    (stacks / "Pulumi.chat.yaml").unlink()
    commit(stacks)
    (stacks / "Pulumi.new.yaml").write_text("config: {}\n")
    (stacks / "notes.md").write_text("No stack.\n")
    (stacks / "old").mkdir()
    (stacks / "old" / "Pulumi.dev.yaml").write_text("config: {}\n")

    assert changes(stacks) == [
        StackChange("chat", "deleted"),
        StackChange("dev", "changed"),
        StackChange("new", "added"),
    ]


def test_a_renamed_stack_is_two(stacks: Path) -> None:
    """A renamed stack file is one that is left behind and one that is new, each of which knows the
    other."""
    (stacks / "Pulumi.chat.yaml").rename(stacks / "Pulumi.talk.yaml")
    commit(stacks)

    assert changes(stacks) == [
        StackChange("chat", "deleted", "talk"),
        StackChange("talk", "renamed", "chat"),
    ]


def test_a_stack_file_that_leaves_the_folder_is_deleted(stacks: Path) -> None:
    """A file that is renamed to what is no stack file is no stack any more."""
    (stacks / "Pulumi.chat.yaml").rename(stacks / "chat.txt")
    commit(stacks)

    assert changes(stacks) == [StackChange("chat", "deleted")]


@pytest.mark.parametrize("shared", ["Pulumi.yaml", "catalog.yaml"])
def test_what_all_stacks_share_concerns_them_all(stacks: Path, shared: str) -> None:
    """A change of the project's own files is one of every stack."""
    file = stacks.parent / shared
    file.write_text(f"{file.read_text() if file.exists() else 'accelerators: []'}\n# changed\n")
    commit(stacks)

    assert changes(stacks) == [StackChange("chat", "same"), StackChange("dev", "same")]


def test_what_others_changed_meanwhile_is_not_this_change(stacks: Path) -> None:
    """The change begins where its branch left the other one."""
    git(stacks, "checkout", "--quiet", "main")
    (stacks / "Pulumi.later.yaml").write_text("config: {}\n")
    commit(stacks)
    git(stacks, "checkout", "--quiet", "change")

    assert changes(stacks) == []


@pytest.mark.parametrize("ref", ["nowhere", "--output=x", "", "main\nmain"])
def test_what_is_no_commit_is_refused(stacks: Path, ref: str) -> None:
    """A reference that does not exist, and one that would pass for an option of Git."""
    with pytest.raises(NotFoundError) as refused:
        changes(stacks, ref)

    assert "git fetch" in str(refused.value.hint)
    assert not (stacks.parent / "x").exists()


def test_the_stack_file_of_before(stacks: Path, tmp_path: Path) -> None:
    """A stack file is read as it was, with the project's files that it needs."""
    before = (stacks / "Pulumi.chat.yaml").read_text()
    (stacks / "Pulumi.chat.yaml").write_text(before.replace("v6e-1", "v6e-4"))
    place = tmp_path / "base"
    place.mkdir()

    base = BaseCommit(opened(stacks), "main", ENVIRON)
    file = base.export(place, "chat")

    assert file is not None
    assert file.read_text() == before
    assert (place / "Pulumi.yaml").is_file()
    assert base.export(place, "never") is None
    assert key_changes(file, stacks / "Pulumi.chat.yaml") == (
        KeyChange("tpuflex:slice.accelerator_type", "v6e-1", "v6e-4"),
    )


def test_what_the_project_file_says_is_compared_too(stacks: Path, tmp_path: Path) -> None:
    """What Pulumi.yaml says for every stack changes those that do not say it themselves; moving a
    key there changes nothing. The server's environment stays unshown."""
    project = stacks.parent / "Pulumi.yaml"
    mine, other = stacks / "Pulumi.chat.yaml", stacks / "Pulumi.dev.yaml"
    text, said = project.read_text(), "config:\n  tpuflex:slice: {max_run_duration: 8h}\n"
    mine.write_text(said)
    other.write_text("config: {}\n")

    def serving(hours: str, value: str) -> None:
        section = f"tpuflex:slice: {{value: {{max_run_duration: {hours}}}}}"
        env = f"tpuflex:serving: {{value: {{env: {{X: {value}}}}}}}"
        project.write_text(f"{text}config:\n  {section}\n  {env}\n")

    serving("4h", "canary1")
    commit(stacks)
    place = tmp_path / "base"
    place.mkdir()
    base = BaseCommit(opened(stacks), "HEAD", ENVIRON)
    names = [file.name.split(".")[1] for file in (mine, other)]
    before = [base.export(place, name) for name in names]
    serving("8h", "canary2")
    mine.write_text("config: {}\n")

    environment = KeyChange("tpuflex:serving.env.X", "(not shown)", "(not shown)")
    assert key_changes(before[0], mine) == (environment,)
    assert key_changes(before[1], other, root=project.parent) == (
        environment,
        KeyChange("tpuflex:slice.max_run_duration", "4h", "8h"),
    )


def test_values_that_may_be_secret_are_not_shown(tmp_path: Path) -> None:
    """Of an encrypted value, of the server's environment, and of what tpuflex does not know, a
    comment names the keys only."""
    old, new = tmp_path / "Pulumi.a.yaml", tmp_path / "Pulumi.b.yaml"
    old.write_text(
        "config:\n  tpuflex:a: {b: [1], c: 2}\n  tpuflex:key: {secure: AAAA}\n"
        "  tpuflex:serving: {env: {HF_TOKEN: hf_canary1}}\n"
    )
    new.write_text(
        "config:\n  tpuflex:a: {b: [1, 2], c: 2}\n  tpuflex:key: plain\n  x:n: canary2\n"
        "  tpuflex:serving: {env: {HF_TOKEN: hf_canary3}}\n"
    )

    assert key_changes(old, new) == (
        KeyChange("tpuflex:a.b", "[1]", "[1, 2]"),
        KeyChange("tpuflex:key", "(encrypted)", "plain"),
        KeyChange("tpuflex:serving.env.HF_TOKEN", "(not shown)", "(not shown)"),
        KeyChange("x:n", "", "(not shown)"),
    )
    assert key_changes(None, new) == ()
