"""`tpuflex ci` and `tpuflex bootstrap`: which stacks, a repository's workflows, and wrong usage."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cli.typing import TypeIn
from tests.deploy.test_base_commit import commit, git
from tests.goldens.golden_texts import assert_golden
from tpuflex import __version__
from tpuflex.scaffold.workflows import (
    FOLDER,
    VARIABLES,
    WorkflowSource,
    is_untouched,
    workflow_texts,
)

ROOT = Path(__file__).parents[2]
NAMES = ("preview", "deploy", "renew", "drift", "sweep")
ONE, TWO = f"acme/tpuflex@{'a1' * 20}", f"acme/tpuflex@{'b2' * 20}"


@pytest.fixture
def repository(project: Path) -> Path:
    """The top of a repository that has the project in a directory of its own."""
    git(project.parent, "init", "--quiet", "--initial-branch", "main")
    commit(project.parent)
    return project.parent


def written(repository: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in (repository / FOLDER).iterdir()}


def test_the_workflows(type_in: TypeIn, repository: Path) -> None:
    """`ci init` writes five workflows at the top of the repository, which call those of tpuflex by
    a commit, and says which variables they read."""
    done = type_in("ci", "init", "--source", ONE)

    assert done.code == 0
    assert_golden("ci/init.txt", done.out)
    assert sorted(written(repository)) == sorted(f"tpuflex-{name}.yml" for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_workflow(type_in: TypeIn, repository: Path, name: str) -> None:
    """A workflow as a user gets it."""
    type_in("ci", "init", "--source", ONE)

    text = written(repository)[f"tpuflex-{name}.yml"]
    assert is_untouched(text)
    assert_golden(
        f"ci/tpuflex-{name}.yml", text.replace(f"tpuflex {__version__}", "tpuflex VERSION")
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_caller_fits_what_it_calls(name: str) -> None:
    """A caller gives every input that is required, none that does not exist, and at least the
    permissions that the jobs it calls ask for; and all variables it reads are announced."""
    source = WorkflowSource.parse(ONE, "tpuflex 1")
    texts = workflow_texts(source, branch="main", directory=".", project="p")
    text = texts[f"{FOLDER}/tpuflex-{name}.yml"]
    (job,) = yaml.safe_load(text)["jobs"].values()
    called = yaml.safe_load((ROOT / FOLDER / f"{name}.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    inputs = called[True]["workflow_call"]["inputs"]

    assert job["uses"] == f"acme/tpuflex/.github/workflows/{name}.yml@{'a1' * 20}"
    assert set(job["with"]) <= set(inputs)
    assert {key for key, each in inputs.items() if each.get("required")} <= set(job["with"])
    wanted = [item for each in called["jobs"].values() for item in each["permissions"].items()]
    assert dict(wanted) == job["permissions"]
    read = {word.split("}")[0].strip() for word in text.split("vars.")[1:]}
    assert read <= set(VARIABLES)


def test_no_finding_of_zizmor() -> None:
    """What a user gets is held to the same rules as the project's own workflows: pinned actions,
    least permissions, no text of a change in a script."""
    zizmor = Path(sys.executable).parent / "zizmor"
    goldens = [str(ROOT / f"tests/goldens/ci/tpuflex-{name}.yml") for name in NAMES]

    done = subprocess.run(
        [zizmor, "--offline", "--persona", "pedantic", str(ROOT / ".github"), *goldens],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_the_gitlab_job_reads() -> None:
    """The job in docs/ci.md is YAML, and its script is bash."""
    text = (ROOT / "docs" / "ci.md").read_text()
    (block,) = re.findall(r"```yaml\n(preview:.*?)```", text, re.DOTALL)
    (script,) = yaml.safe_load(block)["preview"]["script"]
    shellcheck = Path(sys.executable).parent / "shellcheck"

    done = subprocess.run(
        [shellcheck, "--shell=bash", "-"], input=script, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout


def test_another_version_is_an_update(type_in: TypeIn, repository: Path) -> None:
    """`ci init` again raises the commit, also where somebody else has raised it; with the same one
    it changes nothing."""
    type_in("ci", "init", "--source", ONE)
    again = type_in("ci", "init", "--source", ONE, "--json")
    file = repository / FOLDER / "tpuflex-renew.yml"
    raised = file.read_text().replace(f"{'a1' * 20} # tpuflex ", f"{'c3' * 20} # v9, was ")
    file.write_text(raised)

    updated = type_in("ci", "init", "--source", TWO, "--json")

    assert set(again.document["files"].values()) == {"unchanged"}
    assert set(updated.document["files"].values()) == {"updated"}
    assert "a1a1" not in "".join(written(repository).values())


def test_what_was_edited_is_kept(type_in: TypeIn, repository: Path) -> None:
    """One edited workflow, and none is written: neither that nor the others."""
    type_in("ci", "init", "--source", ONE)
    file = repository / FOLDER / "tpuflex-deploy.yml"
    file.write_text(file.read_text().replace("contents: read", "contents: write"))
    before = written(repository)

    refused = type_in("ci", "init", "--source", TWO)

    assert refused.code == 1
    assert "tpuflex-deploy.yml was edited since" in refused.err
    assert written(repository) == before
    assert not is_untouched(before["tpuflex-deploy.yml"])
    assert not is_untouched("name: tpuflex preview\n")


def test_a_link_out_of_the_repository(
    type_in: TypeIn, repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing is written through a link that a checkout brings along."""
    outside = tmp_path_factory.mktemp("outside")
    (repository / ".github").symlink_to(outside)

    assert type_in("ci", "init", "--source", ONE).code == 1
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("--source", "acme/tpuflex@main"),
        ("--source", "acme/tpuflex@a1a1a1a"),
        ("--source", f"acme/tpuflex/x@{'a' * 40}"),
        ("--source", f"acme/t\npermissions: write-all@{'a' * 40}"),
        ("--source", ONE, "--branch", "ma*n"),
        ("--source", ONE, "--branch", "${{ x }}"),
        (),
    ],
)
def test_what_no_workflow_can_say(
    type_in: TypeIn, repository: Path, words: tuple[str, ...]
) -> None:
    """A version that is not a whole commit, and text that would be more than a name, are refused;
    so is a tpuflex of which nobody knows where it comes from."""
    assert type_in("ci", "init", *words).code == 2
    assert not (repository / ".github").exists()


def test_a_directory_that_github_would_evaluate(
    type_in: TypeIn, repository: Path, project: Path
) -> None:
    """A directory's name stands in the workflows, where an expression of GitHub's would be run."""
    moved = project.rename(repository / "a ${{ github.token }}")

    refused = type_in("-C", str(moved), "ci", "init", "--source", ONE)

    assert refused.code != 0
    assert "which GitHub would evaluate" in refused.err
    assert not (repository / FOLDER).exists()


def test_outside_of_a_repository(type_in: TypeIn) -> None:
    """Without Git there is nowhere to write workflows to."""
    refused = type_in("ci", "init", "--source", ONE)

    assert refused.code == 4
    assert "in no Git repository" in refused.err


def test_which_stacks_a_change_touches(type_in: TypeIn, repository: Path, project: Path) -> None:
    """People see a table, scripts a document."""
    assert type_in("ci", "stacks", "--base", "main").out == "No stack is touched.\n"
    (project / "stacks" / "Pulumi.dev.yaml").rename(project / "stacks" / "Pulumi.chat.yaml")
    git(repository, "add", "--all")

    shown = type_in("ci", "stacks", "--base", "main")

    assert shown.out.splitlines() == [
        "STACK  FILE",
        "chat   renamed  renamed: dev",
        "dev    deleted  renamed: chat",
    ]
    assert type_in("ci", "stacks", "--base", "main", "--json").document == {
        "base": "main",
        "stacks": [
            {"stack": "chat", "change": "renamed", "other_name": "dev"},
            {"stack": "dev", "change": "deleted", "other_name": "chat"},
        ],
    }


def test_a_file_name_that_is_no_stack(type_in: TypeIn, repository: Path, project: Path) -> None:
    """A name that would act in a workflow does not become a stack of its matrix."""
    (project / "stacks" / "Pulumi.x$(id)`.yaml").write_text("config: {}\n")

    refused = type_in("ci", "stacks", "--base", "main", "--json")

    assert refused.code == 5
    assert "names no stack" in refused.err
    assert subprocess.run(["git", "-C", str(repository), "status"], check=True, capture_output=True)


def test_which_stacks_renew_themselves(type_in: TypeIn, project: Path) -> None:
    """Stacks on Google with renew_before; one that cannot be read is named, and stops no other."""
    stack = (ROOT / "stacks" / "Pulumi.gemma-4-e4b-v6e-1.yaml").read_text()
    renewing = stack.replace("    max_run", "    renew_before: 1h\n    max_run")
    folder = project / "stacks"
    (folder / "Pulumi.once.yaml").write_text(stack)
    (folder / "Pulumi.on.yaml").write_text(renewing)
    (folder / "Pulumi.broken.yaml").write_text("config: 1\n")

    listed = type_in("ci", "stacks", "--renewing")

    assert listed.out == "on\n"
    assert "Warning: left out: Pulumi.broken.yaml has 1 problem" in listed.err
    assert type_in("ci", "stacks", "--renewing", "--json").document == {"stacks": ["on"]}


@pytest.mark.parametrize("words", [(), ("--base", "main", "--renewing")])
def test_which_stacks_has_to_be_said(type_in: TypeIn, words: tuple[str, ...]) -> None:
    """One question at a time: exit code 2, and nothing is looked at."""
    typed = type_in("ci", "stacks", *words)

    assert (typed.code, typed.out) == (2, "")


NUMBERS = ("--owner-id", "1", "--repository-id", "2")


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "Give --repository, --owner-id and --repository-id"),
        (("--repository", "acme/chat"), "gh api repos/OWNER/NAME"),
        (("--repository", "acme", *NUMBERS), "'acme' is no repository: write OWNER/NAME"),
        (("--repository", "acme/chat", *NUMBERS, "--environment", "a:b"), "no name of an envi"),
        (("--repository", "acme/chat", "--owner-id", "0"), "--owner-id"),
        (("--remove", "--repository", "acme/chat"), "--remove takes no repository"),
        (("--with-states",), "--with-states is for --remove"),
    ],
)
def test_usage(type_in: TypeIn, words: tuple[str, ...], problem: str) -> None:
    """A slip on the command line is refused by name, and no cloud is started."""
    typed = type_in("bootstrap", *words)

    assert typed.code == 2
    assert problem in typed.err


#: The jobs that show what clouds and hosts say, and the step of each that does.
_SHOWING = (
    ("preview", "preview", "Preview"),
    ("deploy", "plan", "Plan"),
    ("deploy", "deploy", "Deploy the plan that was approved"),
    ("renew", "renew", "Renew"),
    ("sweep", "report", "Sweep"),
    ("sweep", "remove", "Sweep"),
)


@pytest.mark.parametrize(("workflow", "job", "name"), _SHOWING)
def test_what_others_say_is_no_command_to_github(
    tmp_path: Path, workflow: str, job: str, name: str
) -> None:
    """Of all that a command shows, nothing is taken for a workflow command; what the workflow says
    after it is, and its exit code counts."""
    steps = yaml.safe_load((ROOT / FOLDER / f"{workflow}.yml").read_text())["jobs"][job]["steps"]
    (run,) = [step["run"] for step in steps if step.get("name") == name]
    (tmp_path / ".tpuflex-source").symlink_to(ROOT)
    (tmp_path / "plan").mkdir()
    (tmp_path / "plan" / "plan.md").touch()
    for command, does in {
        "tpuflex": "echo ::set-output::; echo ::add-mask::x >&2; exit 9",
        "gh": f'echo \'{{"digest": "d"}}\' >{tmp_path}/plan/plan.json',
    }.items():
        (tmp_path / command).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / command).chmod(0o755)
    variables = "DIRECTORY STACK BASE BACKEND PROVIDER OUTSIDE GITHUB_RUN_ID GITHUB_REPOSITORY"
    files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    done = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", run],
        cwd=tmp_path,
        env={
            **dict.fromkeys(variables.split(), "x"),
            **files,
            "RUNNER_TEMP": str(tmp_path),
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
        },
        capture_output=True,
        text=True,
        check=False,
    )

    lines = done.stdout.splitlines()
    (first,) = [n for n, line in enumerate(lines) if line.startswith("::stop-commands::")]
    last = lines.index(f"::{lines[first].removeprefix('::stop-commands::')}::")
    foreign = [n for n, line in enumerate(lines) if line in ("::set-output::", "::add-mask::x")]
    assert foreign
    assert all(first < n < last for n in foreign)
    assert "::" not in done.stderr
    told = Path(files["GITHUB_OUTPUT"])
    assert done.returncode == 9 or told.read_text() == "code=9\n"
