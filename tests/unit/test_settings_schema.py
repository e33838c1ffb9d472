"""The JSON Schema of the stack file agrees with the reader."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml
from jsonschema import Draft202012Validator

from tpuflex.settings.schema import stack_file_schema

STACKS = sorted((Path(__file__).parents[2] / "stacks").glob("Pulumi.*.yaml"))


@pytest.mark.parametrize("path", STACKS, ids=lambda path: path.name)
def test_committed_stacks_agree_with_the_schema(path: Path) -> None:
    """An editor shows no errors in the stack files that come with tpuflex."""
    jsonschema.validate(yaml.safe_load(path.read_text()), stack_file_schema())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tpuflex:slise", {}),
        ("tpuflex:cloud", "azure"),
        ("tpuflex:slice", {"zones": []}),
        ("tpuflex:model", {"name": "a", "colour": "red"}),
    ],
)
def test_an_editor_sees_mistakes(key: str, value: object) -> None:
    """Unknown keys, wrong choices and missing values are errors in the schema too."""
    document = yaml.safe_load(STACKS[0].read_text())
    document["config"][key] = value

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(document, stack_file_schema())


def test_keys_of_other_namespaces_are_left_alone() -> None:
    """A stack file may carry configuration of other packages."""
    document = yaml.safe_load(STACKS[0].read_text())
    document["config"]["gcp:region"] = "us-east5"

    jsonschema.validate(document, stack_file_schema())


@pytest.mark.parametrize(
    ("flag", "value", "taken"),
    [("max-model-len", 4096, True), ("max_model_len", "16K", True), ("max-model-lenght", 1, False)],
)
def test_flags_as_on_the_command_line_of_vllm(flag: str, value: object, taken: bool) -> None:
    """An editor takes the dashes and suffixes that the reader takes, and no other flags."""
    document = yaml.safe_load(STACKS[0].read_text())
    flags = document["config"]["tpuflex:serving"].setdefault("flags", {})
    flags.pop("max_model_len", None)
    flags[flag] = value

    assert Draft202012Validator(stack_file_schema()).is_valid(document) is taken


def test_every_setting_is_described() -> None:
    """Sections and their fields carry a text; vLLM's flags are vLLM's to describe."""
    definitions = stack_file_schema()["$defs"]
    assert isinstance(definitions, dict)

    undescribed = [
        f"{section}.{name}"
        for section, definition in definitions.items()
        if section != "ServingFlags"
        for name, field in definition["properties"].items()
        if "description" not in field and "$ref" not in field
    ]
    assert undescribed == []


def test_every_default_is_a_value_that_the_schema_takes() -> None:
    """What an editor fills in, and docs/settings.md shows, may be written in a stack file."""
    schema = stack_file_schema()
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)

    for section, definition in definitions.items():
        for name, field in definition.get("properties", {}).items():
            if isinstance(field.get("default"), str):
                only = {**field, "$defs": definitions}
                assert not [*Draft202012Validator(only).iter_errors(field["default"])], (
                    f"{section}.{name}"
                )
