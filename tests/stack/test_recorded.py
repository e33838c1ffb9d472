"""What the state of a stack says of its endpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.stack.recorded_states import SALT, endpoint, state
from tests.unit.catalog_files import CHIPS
from tests.unit.stack_sections import embedded, sections
from tpuflex.boot.document import NO_MANIFEST
from tpuflex.components.inputs import endpoint_inputs
from tpuflex.errors import EngineError, SettingsError
from tpuflex.naming import Names
from tpuflex.project import Project
from tpuflex.settings.load import load_stack_file, parse
from tpuflex.settings.policy_section import Budget
from tpuflex.stack.recorded import RecordedEndpoint, recorded_endpoints

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "stacks").glob("Pulumi.*.yaml"))


def only(deployment: dict[str, Any]) -> RecordedEndpoint:
    (found,) = recorded_endpoints(deployment, "dev")
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name.split(".", 1)[1])
def test_what_a_stack_file_says_reads_back_from_the_state(file: Path) -> None:
    """Every shipped stack comes back as it was, but for what is the command line's own."""
    settings = load_stack_file(file, deploying=False).settings
    entry = endpoint("vllm", embedded())
    entry["inputs"] = json.loads(json.dumps(endpoint_inputs(settings)))

    found = only(state(entry))

    assert found.settings == settings.model_copy(update={"budget": Budget(), "waivers": ()})
    assert found.names == Names("tpuflex", "dev", "vllm")
    assert found.by_command


def test_rows_of_the_users_own_come_back() -> None:
    """A stack with chips that tpuflex's own catalog does not have can be read without its file."""
    given = sections({"slice.accelerator_type": "v6e-2", "catalog": {"accelerators": [CHIPS]}})

    found = only(state(endpoint("vllm", given)))

    assert found.settings.catalog.own == parse(given, "sections").catalog.own


@pytest.mark.parametrize(
    ("name", "beside", "alone", "by_command"),
    [
        ("vllm", (), True, True),
        ("chat", (), True, False),
        ("vllm", ("aws:s3/bucket:Bucket",), False, False),
        ("vllm", ("pulumi:providers:aws",), True, True),
    ],
)
def test_whose_program_it_is(
    name: str, beside: tuple[str, ...], alone: bool, by_command: bool
) -> None:
    """The command deploys one endpoint called `vllm`, and nothing else."""
    main = endpoint(name, embedded())
    part = {"urn": "urn:part", "type": "gcp:storage/bucket:Bucket", "parent": main["urn"]}
    others = [{"urn": f"urn:{type_}", "type": type_, "custom": True} for type_ in beside]

    found = only(state(main, part, *others))

    assert (found.alone, found.by_command) == (alone, by_command)


def test_several_endpoints_and_kept_names() -> None:
    """Each endpoint has its own settings; one that keeps earlier names has those."""
    kept = Names("old", "prod", "talk", bucket_suffix="abcdef")
    first = endpoint("chat", embedded(), project="shop")
    named = {"project": "old", "stack": "prod", "name": "talk", "bucket_suffix": "abcdef"}
    second = endpoint("embed", embedded({"project": "other-project"}), project="shop", names=named)

    chat, embed = recorded_endpoints(state(first, second, project="shop"), "dev")

    assert (chat.names, embed.names) == (Names("shop", "dev", "chat"), kept)
    assert (chat.name, embed.name) == ("chat", "embed")
    assert embed.settings.project == "other-project"
    assert (chat.alone, embed.alone) == (False, False)


def test_weights_that_were_not_known_yet_pin_nothing() -> None:
    """A state that `secrets ensure` made has zeros in place of the hash, which pin no weights."""
    entry = endpoint("vllm", embedded({"model.weights.manifest_sha256": NO_MANIFEST}))

    assert only(state(entry)).settings.model.weights.manifest_sha256 is None


def test_a_state_that_cannot_be_read() -> None:
    """One of another version of tpuflex is an error that names what of it is not understood."""
    entry = endpoint("vllm", embedded())
    entry["inputs"]["slice"]["chips"] = 4

    with pytest.raises(SettingsError, match="the state of stack dev has 1 problem") as refused:
        recorded_endpoints(state(entry), "dev")

    assert [finding.key for finding in refused.value.findings] == ["tpuflex:slice.chips"]


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        ({"type": "passphrase", "state": {"salt": SALT}}, {"encryptionsalt": SALT}),
        (
            {"type": "cloud", "state": {"url": "gcpkms://k", "encryptedkey": "AAA"}},
            {"secretsprovider": "gcpkms://k", "encryptedkey": "AAA"},
        ),
        ({"type": "service", "state": {"url": "https://api.pulumi.com"}}, {}),
        (None, {}),
    ],
)
def test_the_engine_gets_the_encryption_of_the_state(
    tmp_path: Path, provider: object, said: dict[str, str]
) -> None:
    """Without the salt in the stack file the engine would write another one."""
    deployment = state(endpoint("vllm", embedded()))
    deployment["secrets_providers"] = provider
    project = Project("shop", tmp_path, tmp_path, tmp_path, "gs://states")

    only(deployment).write_project(tmp_path / "by-state", project, "Pulumi.dev.yaml")

    written = yaml.safe_load((tmp_path / "by-state" / "Pulumi.dev.yaml").read_text())
    manifest = yaml.safe_load((tmp_path / "by-state" / "Pulumi.yaml").read_text())
    assert written == {**said, "config": {}}
    assert manifest == {"name": "shop", "runtime": "python", "backend": {"url": "gs://states"}}


@pytest.mark.parametrize(
    "damage",
    [
        {"urn": None},
        {"urn": "urn:pulumi:dev"},
        {"inputs": {**endpoint("vllm", embedded())["inputs"], "names": {"nobody": "knows"}}},
        {"inputs": {**endpoint("vllm", embedded())["inputs"], "names": "text"}},
        {"inputs": {**endpoint("vllm", embedded())["inputs"], "model": "text"}},
        {"inputs": ["text"]},
    ],
    ids=str,
)
def test_a_damaged_state_is_an_error_of_the_engine(damage: dict[str, Any]) -> None:
    """Whatever somebody wrote there, it is no bug of the command, and says what helps."""
    with pytest.raises((EngineError, SettingsError), match="state of stack dev"):
        recorded_endpoints(state({**endpoint("vllm", embedded()), **damage}), "dev")
