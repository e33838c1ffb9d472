"""The command line reads what the engine reads: the project file's `config:`, and environments of
Pulumi ESC (P13)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.acceptance.engine.pulumi_cloud import pulumi_cloud
from tests.acceptance.plain_pulumi import PlainPulumi, plain_pulumi
from tests.engine.embedded import ROOT, Embedded
from tests.unit.stack_sections import TPU_IMAGE
from tpuflex.cli.invocation import Invocation
from tpuflex.deploy.known_stacks import opened_stacks
from tpuflex.deploy.workflow_stacks import renewed_stacks
from tpuflex.engine.find import Engine
from tpuflex.errors import NotFoundError, SettingsError
from tpuflex.google.endpoints import REHEARSAL_VARIABLE
from tpuflex.program import main
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.opened import OpenedConfig
from tpuflex.settings.project_config import project_config
from tpuflex.settings.stack_yaml import read_yaml

pytestmark = [pytest.mark.engine, pytest.mark.timeout(180)]

CPU_IMAGE = yaml.safe_load((ROOT / "stacks" / "Pulumi.dev.yaml").read_text())["config"][
    "tpuflex:serving"
]["image"]
_PROJECTS = {
    "plain values": ("acme", {"tpuflex:cloud": "google", "tpuflex:project": "acme-serving"}),
    "values and lists": (
        "acme",
        {
            "tpuflex:slice": {"value": {"zones": ["us-east5-a"], "accelerator_type": "v6e-1"}},
            "tpuflex:catalog": {"value": {"models": []}},
            "gcp:region": "us-east5",
            "gcp:project": {"value": "acme-serving"},
            "acme:size": 4,
            "colour": {"type": "string", "default": "red"},
        },
    ),
    "the project's own name": (
        "tpuflex",
        {
            "cloud": "google",
            "project": {"type": "string", "default": "acme-serving", "description": "x"},
            "tpuflex:slice": {"default": {"zones": ["us-east5-b"]}},
            "serving": {"value": {"flags": {"max_model_len": 512, "enforce_eager": True}}},
            "model": {"type": "object"},
        },
    ),
    "a stack that has some itself": (
        "acme",
        {"tpuflex:network": {"value": {"egress": "google"}}, "tpuflex:cloud": "google"},
    ),
}
_STACK = {"tpuflex:network": {"allowed_cidrs": ["10.0.0.0/8"]}, "tpuflex:cloud": "embedded"}


@pytest.mark.parametrize("case", _PROJECTS)
def test_p13_the_project_files_values_are_those_of_the_engine(
    case: str, tmp_path: Path, pulumi_engine: Engine
) -> None:
    """P13: what `pulumi config` shows of tpuflex and gcp is what is read here, without it."""
    name, config = _PROJECTS[case]
    stack = _STACK if case.endswith("itself") else {}
    text = yaml.safe_dump({"name": name, "runtime": "python", "config": config})
    (tmp_path / "Pulumi.yaml").write_text(text)
    (tmp_path / "Pulumi.dev.yaml").write_text(yaml.safe_dump({"config": stack}))
    environ = {
        "PATH": "/usr/bin:/bin",
        "PULUMI_HOME": str(tmp_path / "home"),
        "PULUMI_BACKEND_URL": f"file://{tmp_path}",
        "PULUMI_CONFIG_PASSPHRASE": "",
        "PULUMI_SKIP_UPDATE_CHECK": "true",
    }
    pulumi = PlainPulumi(pulumi_engine.path, tmp_path, environ)
    pulumi("stack", "init", "dev")
    shown = OpenedConfig.of(json.loads(pulumi("config", "--json", "--stack", "dev").stdout))

    found = project_config(read_yaml(text)).without(stack)

    assert not found.findings
    assert {**found.values, **stack} == {
        key: value for key, value in shown.values.items() if key.startswith(("tpuflex:", "gcp:"))
    }


def test_p13_one_program_from_both_commands(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P13: with all but the slice in Pulumi.yaml, plain `pulumi preview` runs the project's program
    and ours reads the same settings."""
    for variable, value in embedded.environ.items():
        monkeypatch.setenv(variable, value)  # the program runs in this process
    before = embedded.settings
    project, stack = (
        yaml.safe_load((embedded.root / name).read_text())
        for name in ("Pulumi.yaml", "stacks/Pulumi.dev.yaml")
    )
    config = stack["config"]
    kept = {"tpuflex:slice": config.pop("tpuflex:slice")}
    project["config"] = {
        key: value if isinstance(value, str) else {"value": value} for key, value in config.items()
    }
    (embedded.root / "Pulumi.yaml").write_text(yaml.safe_dump(project))
    path = embedded.root / "stacks" / "Pulumi.dev.yaml"
    path.write_text(yaml.safe_dump({**stack, "config": kept}))

    with plain_pulumi(embedded.engine.path, embedded.root, embedded.environ, main) as pulumi:
        pulumi("stack", "init", "dev")
        shown = pulumi("preview", "--stack", "dev").stdout

    assert load_stack_file(path).settings == before
    assert "tpuflex:tpu:QueuedResource" in shown


def on_google(directory: Path) -> Path:
    """A project with a stack that has its cloud and project from an environment."""
    (directory / "Pulumi.yaml").write_text("name: acme\nruntime: python\n")
    (directory / "Pulumi.dev.yaml").write_text(
        "environment: [acme/prod]\nconfig:\n"
        "  tpuflex:slice: {zones: [us-east5-a], accelerator_type: v6e-4}\n"
        "  tpuflex:model: {name: google/gemma-4-E4B-it}\n"
        f"  tpuflex:serving: {{image: {TPU_IMAGE}}}\n"
    )
    return directory


_SET: dict[str, Any] = {
    "tpuflex:cloud": "google",
    "tpuflex:project": "acme-serving",
    # The stack file's own keys win, those that it does not have come from here.
    "tpuflex:slice": {"accelerator_type": "v6e-1", "max_run_duration": "4h"},
    "other:password": "secret:canary-3c",
}


def command(directory: Path, backend: Mapping[str, str]) -> Invocation:
    """A command in ``directory``, with the engine of this checkout."""
    own = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(directory),
        "PULUMI_HOME": str(directory / "home"),
        "TPUFLEX_HOME": str(ROOT / ".tpuflex"),
    }
    return Invocation(environ={**own, **backend}, directory=directory)


@pytest.mark.usefixtures("pulumi_engine")
def test_p13_environments_are_opened_by_the_engine(tmp_path: Path) -> None:
    """P13: on Pulumi Cloud, what environments set is merged as the engine merges it, key by key;
    secrets of others are no concern."""
    with pulumi_cloud("acme/dev", _SET) as login:
        stack = command(on_google(tmp_path), login).open_stack()

    assert stack.settings.project == "acme-serving"
    assert stack.settings.slice.accelerator_type == "v6e-4"
    assert stack.settings.slice.max_run_duration == timedelta(hours=4)


@pytest.mark.usefixtures("pulumi_engine")
def test_p13_commands_for_all_stacks_open_them_too(tmp_path: Path) -> None:
    """P13: `down --all` finds a stack that has its cloud from an environment, and a schedule renews
    it; one that the backend does not know ends neither."""
    renewed = {**_SET, "tpuflex:slice": {**_SET["tpuflex:slice"], "renew_before": "30m"}}
    with pulumi_cloud("acme/dev", renewed) as login:
        invocation = command(on_google(tmp_path), login)
        text = (tmp_path / "Pulumi.dev.yaml").read_text()
        (tmp_path / "Pulumi.other.yaml").write_text(text)
        dev, other = opened_stacks(invocation.project, invocation.open_named)
        found = renewed_stacks(invocation.project, invocation.opened_config, print)

    assert dev.stack is not None
    assert dev.stack.settings.project == "acme-serving"
    assert isinstance(other.error, NotFoundError)
    assert str(other.error.hint) == "Make it there: pulumi stack init other"
    assert found.stacks == ("dev",)


@pytest.mark.usefixtures("pulumi_engine")
def test_p13_a_secret_from_an_environment_is_refused_unseen(tmp_path: Path) -> None:
    """P13: a secret for tpuflex is refused like one in a stack file, without its value."""
    sealed = {**_SET, "tpuflex:project": "secret:canary-3c"}
    with pulumi_cloud("acme/dev", sealed) as login, pytest.raises(SettingsError) as caught:
        command(on_google(tmp_path), login).open_stack()

    assert "tpuflex:project: holds an encrypted value" in str(caught.value)
    assert "canary" not in str(caught.value)


def test_p13_a_backend_of_files_opens_no_environment(tmp_path: Path, pulumi_engine: Engine) -> None:
    """P13: the engine says that the backend opens none; we say what to do, and end with 5."""
    (tmp_path / "backend").mkdir()
    backend = {"PULUMI_BACKEND_URL": f"file://{tmp_path}/backend", "PULUMI_CONFIG_PASSPHRASE": ""}
    opened = command(on_google(tmp_path), backend)
    PlainPulumi(pulumi_engine.path, tmp_path, opened.environ)("stack", "init", "dev")

    with pytest.raises(SettingsError) as caught:
        opened.open_stack()

    (finding,) = caught.value.findings
    assert caught.value.exit_code == 5
    assert "which the backend in use does not open" in finding.problem
    assert "Only Pulumi Cloud opens environments" in finding.remedy


@pytest.mark.usefixtures("pulumi_engine")
def test_p13_the_embedded_cloud_opens_no_environment(tmp_path: Path) -> None:
    """P13: a stack on the embedded cloud has its state in files; and a rehearsal, which calls
    nothing outside, asks no Pulumi Cloud."""
    with pulumi_cloud("acme/dev", {**_SET, "tpuflex:cloud": "embedded"}) as login:
        directory = on_google(tmp_path)
        file = directory / "Pulumi.dev.yaml"
        file.write_text(file.read_text().replace("v6e-4", "v6e-1").replace(TPU_IMAGE, CPU_IMAGE))
        with pytest.raises(SettingsError, match="has its state in files"):
            command(directory, login).open_stack()
        rehearsal = {**login, REHEARSAL_VARIABLE: "1"}
        with pytest.raises(SettingsError, match="a rehearsal asks nothing of Pulumi Cloud"):
            command(directory, rehearsal).open_stack()
