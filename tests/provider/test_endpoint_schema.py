"""The component in the package schema: what editors, compilers and the registry know of it."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import yaml
from pydantic import BaseModel

from pulumi_plugin.wire import encode
from tpuflex.catalog.rows import CatalogRows
from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.provider import endpoint_schema
from tpuflex.provider.endpoint_schema import SECTIONS, KeptNames
from tpuflex.provider.schema import package_schema
from tpuflex.remote.sections import endpoint_sections
from tpuflex.settings.model import PLACEHOLDER_PROJECT, StackSettings

SCHEMA: dict[str, Any] = json.loads(package_schema())
COMPONENT: dict[str, Any] = SCHEMA["resources"][VLLM_ENDPOINT]


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models that the fields of ``model`` are made of, at any depth."""
    for field in model.model_fields.values():
        for part in parts(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield part
                yield from models(part)


def parts(annotation: object) -> Iterator[object]:
    """``annotation``, and what stands in its brackets."""
    yield annotation
    for argument in get_args(annotation):
        yield from parts(argument)


def inputs_of(model: type[BaseModel]) -> dict[str, Any]:
    """The properties that the schema has for ``model``."""
    made: dict[str, Any] = SCHEMA["types"][f"tpuflex:index:{model.__name__}"]
    return made


def test_it_is_a_component_with_the_sections_as_inputs() -> None:
    """What a program must name is what a stack file must have, but for the cloud."""
    assert COMPONENT["isComponent"] is True
    assert list(COMPONENT["inputProperties"]) == [*SECTIONS, "names"]
    assert COMPONENT["requiredInputs"] == ["project", "slice", "model", "serving"]
    assert {"budget", "waivers", "gateway"} == set(StackSettings.model_fields) - set(SECTIONS)


SECTION_MODELS = [
    *dict.fromkeys(
        [
            each
            for name in SECTIONS
            for each in parts(StackSettings.model_fields[name].annotation)
            if isinstance(each, type) and issubclass(each, BaseModel)
        ]
    ),
    CatalogRows,
    KeptNames,
]


@pytest.mark.parametrize("section", SECTION_MODELS)
def test_every_key_of_a_section_is_in_it(section: type[BaseModel]) -> None:
    """With the keys of a stack file, its type, and what has to be there."""
    for model in (section, *models(section)):
        made = inputs_of(model)
        fields = model.model_fields.items()
        assert list(made["properties"]) == [name for name, _ in fields]
        assert set(made["required"]) == {name for name, field in fields if field.is_required()}


@pytest.mark.parametrize(
    ("token", "key", "kind"),
    [
        ("SliceSettings", "zones", {"type": "array", "items": {"type": "string"}}),
        ("SliceSettings", "max_run_duration", {"type": "string"}),
        ("SliceSettings", "timeouts", {"$ref": "#/types/tpuflex:index:Timeouts"}),
        ("SliceSettings", "strategy", {"$ref": "#/types/tpuflex:index:SliceSettingsStrategy"}),
        ("SliceSettings", "secure_boot", {"type": "boolean"}),
        ("ServingFlags", "max_model_len", {"type": "integer"}),
        ("ServingFlags", "gpu_memory_utilization", {"type": "number"}),
        (
            "ServingFlags",
            "hf_overrides",
            {"type": "object", "additionalProperties": {"$ref": "pulumi.json#/Any"}},
        ),
        (
            "ServingFlags",
            "override_generation_config",
            {"type": "object", "additionalProperties": {"type": "number"}},
        ),
        (
            "ServingSettings",
            "env",
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
    ],
)
def test_types_are_those_of_the_settings(token: str, key: str, kind: dict[str, Any]) -> None:
    """Lists, texts, numbers, switches, objects, words and mappings."""
    found = SCHEMA["types"][f"tpuflex:index:{token}"]["properties"][key]

    assert {name: value for name, value in found.items() if name != "description"} == kind


def test_words_are_an_enumeration() -> None:
    """Compilers refuse what the settings refuse."""
    words = SCHEMA["types"]["tpuflex:index:EndpointCloud"]["enum"]

    assert [word["value"] for word in words] == ["google", "embedded"]


def test_outputs_are_those_that_the_state_has() -> None:
    """No input is among them but by its name; what may be missing is not required."""
    assert {"url", "expires"} == set(COMPONENT["properties"]) - set(COMPONENT["required"])
    assert endpoint_schema.OUTPUT in COMPONENT["properties"]


def test_the_example_can_be_made() -> None:
    """Its inputs are right, in each of the three languages."""
    inputs = dict(endpoint_schema.INPUTS)
    endpoint_sections(
        encode(json.loads(json.dumps(inputs).replace(PLACEHOLDER_PROJECT, "acme-ai")))
    )
    program = yaml.safe_load(endpoint_schema.yaml_example())
    assert program["resources"]["chat"] == {"type": VLLM_ENDPOINT, "properties": inputs}
    (call,) = (
        node.value
        for node in ast.parse(endpoint_schema.python_example()).body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
    )
    arguments = call.args[1]
    assert isinstance(arguments, ast.Call)
    assert {each.arg: ast.literal_eval(each.value) for each in arguments.keywords} == inputs
    written = endpoint_schema.typescript_example()
    literal = written[written.index("{") : written.rindex("}") + 1]
    assert yaml.safe_load(literal) == inputs  # JavaScript without comments is YAML here
