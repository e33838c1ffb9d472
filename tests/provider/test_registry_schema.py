"""The package schema as a registry, and code generators for other languages, read it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from typing import Any, get_args, get_origin

import pulumi
import pytest
import yaml
from pydantic.alias_generators import to_camel

import tpuflex
from pulumi_plugin.values import Properties
from tests.provider.fakes import INPUTS as BASE
from tests.queued_resource.inputs import OTHER
from tpuflex.naming import QUEUED_RESOURCE, VLLM_ENDPOINT
from tpuflex.provider import examples
from tpuflex.provider.diff import resource_diff
from tpuflex.provider.schema import package_schema
from tpuflex.queued_resource.fields import DEFAULTS, INNER_DEFAULTS, INPUTS, ROWS, RequestArgs
from tpuflex.queued_resource.name import Nodes, NodeStatus, RequestName
from tpuflex.queued_resource.objects import DataDisk, MultiNode
from tpuflex.queued_resource.outputs import outputs
from tpuflex.queued_resource.snapshot import Snapshot
from tpuflex.queued_resource.states import Lifecycle

SCHEMA: dict[str, Any] = json.loads(package_schema())
RESOURCE: dict[str, Any] = SCHEMA["resources"][QUEUED_RESOURCE]
ENUMS = {token: type_ for token, type_ in SCHEMA["types"].items() if "enum" in type_}


def test_an_sdk_for_python_is_installed_beside_the_library() -> None:
    """`pulumi package add` in a Python project makes one: it overwrites no package of ours."""
    name = SCHEMA["language"]["python"]["packageName"]

    assert name == "pulumi_tpuflex"
    assert find_spec(name) is None


def test_the_library_has_what_an_sdk_for_python_would_have() -> None:
    """Every resource, type of inputs and enumeration is where Pulumi's generator says it is: what
    `pulumi import` prints finds it."""
    modules = {"index": tpuflex, "tpu": tpuflex.tpu}
    for token, resource in SCHEMA["resources"].items():
        _, module, name = token.split(":")
        kind = pulumi.ComponentResource if resource.get("isComponent") else pulumi.CustomResource
        assert issubclass(getattr(modules[module], name), kind)
    assert issubclass(tpuflex.Provider, pulumi.ProviderResource)
    for token, type_ in ENUMS.items():
        _, module, name = token.split(":")
        if module == "index":
            continue  # of the component, which takes sections as they are in a stack file
        members = getattr(modules[module], name)
        assert [member.value for member in members] == [item["value"] for item in type_["enum"]]


def test_every_language_asks_for_this_version() -> None:
    """An SDK without it has version 0.0.0, and a state that no engine can load."""
    assert {"python", "nodejs", "go"} <= SCHEMA["language"].keys()
    for language in SCHEMA["language"].values():
        assert language["respectSchemaVersion"] is True


@pytest.mark.parametrize("model", [RequestArgs, MultiNode, DataDisk])
def test_every_choice_of_words_is_an_enumeration(model: Any) -> None:
    """Inputs that take one of several words say which, for editors and compilers."""
    inside = "" if model is RequestArgs else model.__name__
    place = RESOURCE["inputProperties"]
    if inside:
        place = SCHEMA["types"][f"tpuflex:tpu:{inside}"]["properties"]
    for name, field in model.model_fields.items():
        words = _words(field.annotation)
        if words:
            token = place[to_camel(name)]["$ref"].removeprefix("#/types/")
            assert tuple(item["value"] for item in ENUMS[token]["enum"]) == words


def _words(annotation: object) -> tuple[object, ...]:
    arguments = get_args(annotation)
    if str(get_origin(annotation)) == "typing.Literal":
        return arguments
    return next((words for argument in arguments if (words := _words(argument))), ())


def test_defaults_are_those_of_the_table() -> None:
    """What an SDK sends for an input that is left out is what the provider would take."""
    said = {k: v["default"] for k, v in RESOURCE["inputProperties"].items() if "default" in v}
    scalars = {key: value for key, value in DEFAULTS.items() if not isinstance(value, list | dict)}

    assert said == scalars
    mode = SCHEMA["types"]["tpuflex:tpu:DataDisk"]["properties"]["mode"]
    assert mode["default"] == INNER_DEFAULTS["dataDisks"]["mode"]


#: Other inputs on which it depends what a change means.
BESIDE: tuple[dict[str, Any], ...] = (
    {},
    {"onBootChange": "update"},
    {"zones": ["a-b1", "us-east5-b"]},
)


@pytest.mark.parametrize("key", sorted(ROWS))
def test_what_replaces_is_what_the_diff_replaces(key: str) -> None:
    """An input is marked if its change replaces an ACTIVE slice whatever else is given."""
    stands: Properties = {"lifecycle": Lifecycle.ACTIVE.value, "zone": "us-east5-b"}
    other = {name: value for name, value in OTHER[key].items() if name in (key, "multiNode")}
    seen = []
    for beside in BESIDE:
        old = {**BASE, "strategy": "race", **beside}
        planned = resource_diff(old, {**old, **other}, stands, 0.0).diff
        seen.append(bool(planned.replaces))

    assert RESOURCE["inputProperties"][key].get("willReplaceOnChanges", False) is all(seen)


def test_what_is_always_there_is_required() -> None:
    """Generated classes then say that it is never missing."""
    name = RequestName("p", "us-east5-a", "slice-g1")
    barest = outputs({}, Snapshot(name, None, Nodes(name.node_ids), at=0.0))
    always = {key for key, value in barest.items() if value is not None}

    assert always == set(RESOURCE["required"]) - set(RESOURCE["inputProperties"])
    assert SCHEMA["types"]["tpuflex:tpu:NodeStatus"]["required"] == ["id", "ipAddresses"]
    assert NodeStatus(id="x").model_dump(exclude_none=True) == {"id": "x", "ip_addresses": ()}


def test_the_yaml_example_says_the_same() -> None:
    """It is YAML, with the same inputs and an output that there is."""
    program = yaml.safe_load(examples.yaml_example())

    assert program["resources"]["slice"] == {
        "type": QUEUED_RESOURCE,
        "properties": dict(examples.INPUTS),
    }
    assert examples.OUTPUT in RESOURCE["properties"]


def test_examples_are_inputs_of_the_schema() -> None:
    """Each key is an input, and what has to be given is given, in all three languages."""
    assert set(examples.INPUTS) <= set(RESOURCE["inputProperties"])
    assert set(RESOURCE["requiredInputs"]) <= set(examples.INPUTS)
    for text in (examples.typescript_example(), examples.yaml_example()):
        assert all(f" {key}: " in text or f" {key}:\n" in text for key in examples.INPUTS)
    for language in ("typescript", "python", "yaml"):
        assert f"```{language}\n" in RESOURCE["description"]


def referred(kind: dict[str, Any]) -> str | None:
    """The type that ``kind`` is, or is a list or a mapping of."""
    inside = kind.get("items") or kind.get("additionalProperties")
    return kind.get("$ref") or (referred(inside) if inside else None)


def test_it_holds_every_input_at_every_depth() -> None:
    """Each input and each field inside of one has a type and a text; each type is defined."""
    schema = SCHEMA
    resource = schema["resources"][QUEUED_RESOURCE]

    assert set(resource["inputProperties"]) == INPUTS
    defined = {f"#/types/{token}" for token in schema["types"]}
    component = schema["resources"][VLLM_ENDPOINT]
    groups = [resource["inputProperties"], resource["properties"]] + [
        group["properties"] for group in schema["types"].values() if "enum" not in group
    ]
    groups += [function["outputs"]["properties"] for function in schema["functions"].values()]
    groups += [component["inputProperties"], component["properties"]]
    used = set()
    for group in groups:
        for name, text in group.items():
            assert text["description"], name
            reference = referred(text)
            used |= {reference} - {None, "pulumi.json#/Any"}
            assert reference or text["type"], name
    assert used == defined


def test_required_is_what_has_no_default() -> None:
    """A program must say what nothing can be made of; an object what it cannot be without."""
    schema = SCHEMA

    resource = schema["resources"][QUEUED_RESOURCE]
    assert resource["requiredInputs"] == ["runtimeVersion", "serviceAccount", "zones"]
    assert schema["types"]["tpuflex:tpu:DataDisk"]["required"] == ["sourceDisk"]
    assert schema["types"]["tpuflex:tpu:MultiNode"]["required"] == ["nodeCount"]
    size = schema["types"]["tpuflex:tpu:BootDisk"]["properties"]["diskSizeGb"]
    assert size["type"] == "integer"
