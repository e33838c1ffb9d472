"""`config:` of the project file is read with every stack file; what is wrong in it is said with
file, key and line. The engine's own reading: tests/acceptance/engine/test_configuration.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.stack_sections import TPU_IMAGE
from tpuflex.errors import SettingsError
from tpuflex.project import open_project
from tpuflex.settings.load import load_stack_file
from tpuflex.stack.stack import read_stack

PROJECT = """\
name: acme
runtime: python
config:
  tpuflex:cloud: google
  tpuflex:project:
    value: acme-serving
  tpuflex:model:
    value:
      name: google/gemma-4-E4B-it
  acme:colour:
    type: string
    default: red
  size: 4
"""
STACK = f"""\
config:
  tpuflex:slice:
    zones: [us-east5-a]
    accelerator_type: v6e-4
    max_run_duration: 4h
  tpuflex:serving:
    image: {TPU_IMAGE}
"""


def written(directory: Path, project: str = PROJECT, stack: str = STACK) -> Path:
    """A project with a stack; the path of its file."""
    (directory / "Pulumi.yaml").write_text(project)
    (directory / "stacks").mkdir()
    path = directory / "stacks" / "Pulumi.prod.yaml"
    path.write_text(stack)
    return path


def refused(path: Path) -> list[str]:
    """The lines of the error that ``path`` gives, without the first."""
    with pytest.raises(SettingsError) as caught:
        load_stack_file(path)
    return [line.strip() for line in str(caught.value).splitlines()[1:]]


def test_p13_what_the_project_file_says_counts_for_every_stack(tmp_path: Path) -> None:
    """P13: keys of `config:` in Pulumi.yaml are not "missing"; keys of others are left alone."""
    settings = load_stack_file(written(tmp_path)).settings

    assert settings.cloud == "google"
    assert settings.project == "acme-serving"
    assert settings.model.name == "google/gemma-4-E4B-it"


def test_p13_the_stack_file_wins_section_by_section(tmp_path: Path) -> None:
    """P13: a section of the stack file takes the place of the project's; they are not merged."""
    project = PROJECT + (
        "  tpuflex:slice:\n    value: {zones: [us-east5-b], renew_before: 1h}\n"
        "  tpuflex:network:\n    value: {allowed_cidrs: [10.0.0.0/8]}\n"
    )

    settings = load_stack_file(written(tmp_path, project)).settings

    assert settings.slice.zones == ("us-east5-a",)
    assert settings.slice.renew_before is None
    assert [str(each) for each in settings.network.allowed_cidrs] == ["10.0.0.0/8"]


def test_p13_keys_without_namespace_are_the_projects_own(tmp_path: Path) -> None:
    """P13: in a project called tpuflex, as `tpuflex init` makes it, `cloud` is tpuflex:cloud, and
    may have a declared type with a default."""
    project = (
        "name: tpuflex\nruntime: python\nconfig:\n  cloud: google\n"
        "  project: {type: string, default: acme-serving}\n"
        "  tpuflex:model: {default: {name: google/gemma-4-E4B-it}}\n"
    )

    settings = load_stack_file(written(tmp_path, project)).settings

    assert (settings.cloud, settings.project) == ("google", "acme-serving")
    assert settings.model.name == "google/gemma-4-E4B-it"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "tpuflex:network: {allowed_cidrs: [10.0.0.0/8]}",
            "tpuflex:network: is a section that Pulumi does not read in a project file"
            " (Pulumi.yaml, line 14). Write it below `value:`,",
        ),
        (
            "tpuflex:network: {default: {egress: google}}",
            "tpuflex:network: has no `value` (Pulumi.yaml, line 14). Write one below it;",
        ),
        (
            "tpuflex:network: {default: {}, value: {}}",
            "tpuflex:network: has both `default` and `value` (Pulumi.yaml, line 14). Remove one",
        ),
        ("tpuflex:network:", "tpuflex:network: has no value (Pulumi.yaml, line 14). Write one,"),
        (
            "tpuflex:network.egress: google",
            "tpuflex:network.egress: is a path into a section (Pulumi.yaml, line 14). Write the",
        ),
        (
            "tpuflex:secrets: {value: {hf_token_version: canary-71}, secret: true}",
            "tpuflex:secrets: is declared as a secret (Pulumi.yaml, line 14). This file holds no",
        ),
        (
            "tpuflex:network: {value: {egres: google}}",
            "tpuflex:network.egres: unknown key (Pulumi.yaml, line 14). Did you mean",
        ),
        ("tpuflex:clowd: google", "tpuflex:clowd: unknown key (Pulumi.yaml, line 14). Did you"),
        (
            "gcp:region: us-west1",
            "gcp:region: says something else than tpuflex's settings, which count"
            " (Pulumi.yaml, line 14). Write tpuflex:slice.zones;",
        ),
    ],
)
def test_p13_a_mistake_names_file_key_and_line(tmp_path: Path, line: str, expected: str) -> None:
    """P13: what the engine, or tpuflex, does not take from Pulumi.yaml is refused in a sentence of
    its own, once; a secret's value is not shown."""
    (finding,) = refused(written(tmp_path, f"{PROJECT}  {line}\n"))

    assert finding.startswith(expected)
    assert "canary" not in finding


def test_p13_what_is_refused_is_not_missing_as_well(tmp_path: Path) -> None:
    """P13: a required key that stands in Pulumi.yaml in a wrong way has one finding."""
    project = PROJECT.replace("    value:\n      name:", "    name:")

    (finding,) = refused(written(tmp_path, project))

    assert finding.startswith("tpuflex:model: is a section that Pulumi does not read")


def test_p13_a_stack_that_says_it_itself_is_not_held_to_the_project(tmp_path: Path) -> None:
    """P13: what the stack file has is not looked at in Pulumi.yaml."""
    project = PROJECT.replace("tpuflex:cloud: google", "tpuflex:cloud: {secret: true}")

    settings = load_stack_file(
        written(tmp_path, project, STACK + "  tpuflex:cloud: google\n")
    ).settings

    assert settings.cloud == "google"


@pytest.mark.parametrize("environment", ["[acme/prod]", "{imports: [acme/prod]}"])
def test_p13_environments_are_not_passed_over(tmp_path: Path, environment: str) -> None:
    """P13: a stack file that names environments of Pulumi ESC is not read without them."""
    stack = f"environment: {environment}\n{STACK}"

    (finding,) = refused(written(tmp_path, PROJECT, stack))

    assert finding == (
        "environment: names environments of Pulumi ESC, and this command does not open them."
        " Only Pulumi Cloud opens environments: log in to it (`pulumi login`), or write"
        " what they set below `config:` and remove this key."
    )


def test_p13_an_empty_list_of_environments_is_none(tmp_path: Path) -> None:
    """P13: `environment: []` names nothing."""
    assert load_stack_file(written(tmp_path, PROJECT, f"environment: []\n{STACK}")).settings


@pytest.mark.parametrize("key", ["stackConfigDir", "config"])
def test_p13_a_text_as_config_is_the_directory_of_the_stacks(tmp_path: Path, key: str) -> None:
    """P13: `config: stacks`, the older spelling of `stackConfigDir`, is read as the engine does."""
    written(tmp_path, f"name: acme\nruntime: python\n{key}: stacks\n")

    project = open_project(tmp_path, {"HOME": str(tmp_path)})

    assert project.stacks == tmp_path / "stacks"
    assert project.stack_names() == ("prod",)


@pytest.mark.parametrize("how", ["a directory beside the project's", "a symbolic link"])
def test_p13_it_counts_wherever_the_stack_files_are(how: str, tmp_path: Path) -> None:
    """P13: `stackConfigDir`, or a symbolic link, may lead out of the project: Pulumi reads the
    project file of the directory that it runs in, not one above the stack file."""
    root, beside = tmp_path / "acme", tmp_path / "shared" / "stacks"
    root.mkdir()
    beside.mkdir(parents=True)
    (beside.parent / "Pulumi.yaml").write_text("name: another\nruntime: python\n")
    (beside / "Pulumi.prod.yaml").write_text(STACK)
    folder = "stackConfigDir: ../shared/stacks\n" if "directory" in how else ""
    (root / "Pulumi.yaml").write_text(PROJECT + folder)
    if not folder:
        (root / "Pulumi.prod.yaml").symlink_to(beside / "Pulumi.prod.yaml")

    settings = read_stack(open_project(root, {}), "prod").settings

    assert (settings.project, settings.model.name) == ("acme-serving", "google/gemma-4-E4B-it")
