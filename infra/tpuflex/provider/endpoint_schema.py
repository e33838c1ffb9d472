"""The component in the package schema: its inputs are the sections of a stack file, made from the
settings' own models. The keys stay as they are in a stack file.

Imported only when the schema is asked for.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from pydantic import Field

from tpuflex.naming import PACKAGE, VLLM_ENDPOINT, Names
from tpuflex.provider.examples import example_section
from tpuflex.provider.property_types import STRING, JsonObject, enum_members, enum_name
from tpuflex.settings.base import Frozen
from tpuflex.settings.model import StackSettings
from tpuflex.settings.plain import JsonValue
from tpuflex.settings.schema import DescribedSchema

#: Sections of a stack file that the command line alone looks at.
_OF_THE_COMMAND_LINE = ("budget", "waivers", "gateway")
#: The input beside the sections.
NAMES = "names"
SECTIONS = tuple(name for name in StackSettings.model_fields if name not in _OF_THE_COMMAND_LINE)
#: What an endpoint takes that a program does not name.
DEFAULTS = {"cloud": "google"}


class KeptNames(Frozen):
    """What an endpoint was called by, whose names in the cloud it is to keep when project, stack or
    name are another one now."""

    project: str = Field(min_length=1)
    """Name of the Pulumi project."""

    stack: str = Field(min_length=1)
    """Name of the stack, without the organization."""

    name: str = Field(min_length=1)
    """Name of the endpoint in the program."""

    bucket_suffix: str = ""
    """What its bucket's name ended with, if `model.weights.bucket_suffix` was set."""

    @property
    def names(self) -> Names:
        """The names in the cloud."""
        return Names(self.project, self.stack, self.name, self.bucket_suffix)


#: Inputs as a stack file has them. The image is the mirror's that the README makes.
INPUTS: Mapping[str, JsonValue] = {
    "project": "my-project-id",
    "slice": {
        "zones": ["us-east5-a", "us-east5-b"],
        "accelerator_type": "v6e-1",
        "max_run_duration": "4h",
    },
    "model": {
        "name": "google/gemma-4-E4B-it",
        "weights": {
            "manifest_sha256": "85beaec7b7518277b93958ab8a2a157de58e498920f9781538d8191904c7ecc6"
        },
    },
    "serving": {
        "image": "us-east5-docker.pkg.dev/my-project-id/dockerhub/vllm/vllm-tpu@sha256:"
        "19a1a0526476f902eb83e1057f3d8938f35b457dd7716a30e9ab4f7bee90d507",
        "flags": {"dtype": "bfloat16", "max_model_len": 16384, "gpu_memory_utilization": 0.9},
    },
    "network": {"allowed_cidrs": ["10.0.0.0/8"]},
}
#: The output that the example exports.
OUTPUT = "url"


def python_example() -> str:
    """The program in Python."""
    inputs = "".join(f"    {key}={_python(value)},\n" for key, value in INPUTS.items())
    return (
        "import pulumi\nimport tpuflex\n\n"
        'chat = tpuflex.VllmEndpoint("chat", tpuflex.VllmEndpointArgs(\n'
        f'{inputs}))\npulumi.export("{OUTPUT}", chat.{OUTPUT})\n'
    )


def typescript_example() -> str:
    """The program in TypeScript, with the SDK that `pulumi package add` makes."""
    return (
        'import * as tpuflex from "tpuflex";\n\n'
        f'const chat = new tpuflex.VllmEndpoint("chat", {_typescript(dict(INPUTS))});\n'
        f"export const {OUTPUT} = chat.{OUTPUT};\n"
    )


def yaml_example() -> str:
    """The program in YAML, without the name of a Pulumi project."""
    program = {
        "resources": {"chat": {"type": VLLM_ENDPOINT, "properties": dict(INPUTS)}},
        "outputs": {OUTPUT: f"${{chat.{OUTPUT}}}"},
    }
    return yaml.safe_dump(program, sort_keys=False, width=120)


def endpoint_example() -> str:
    """The section of the component's description."""
    return example_section(
        "One chip for four hours, for clients in a private network",
        typescript_example(),
        python_example(),
        yaml_example(),
    )


def _python(value: JsonValue) -> str:
    return repr(value).replace("'", '"')


def _typescript(value: JsonValue, depth: int = 0) -> str:
    """``value`` as a literal; its names need no quotes."""
    if not isinstance(value, dict):
        return json.dumps(value)
    inside = "    " * (depth + 1)
    lines = [f"{inside}{key}: {_typescript(item, depth + 1)},\n" for key, item in value.items()]
    return "{\n" + "".join(lines) + "    " * depth + "}"


_ANY: JsonObject = {"$ref": "pulumi.json#/Any"}
_SCALARS = frozenset({"string", "integer", "number", "boolean"})
#: Output, its text, and whether it is always there.
_OUTPUTS = (
    (
        "url",
        "Base URL of the API, inside the network. A preview does not know it while the slice is not"
        " active; after an update without an active slice there is none.",
        False,
    ),
    ("model", "Name of the served model.", True),
    ("zone", "Zone of the slice.", True),
    ("queuedResource", "Full name of the slice's request.", True),
    ("state", "Google's word for the request's state.", True),
    (
        "lifecycle",
        "Where the request stands: waiting, provisioning, active, ended, failed, lost or deleting.",
        True,
    ),
    ("expires", "When Google deletes the slice (RFC 3339); none before it is granted.", False),
    ("network", "Id of the slice's network.", True),
    ("subnetwork", "Id of the slice's subnetwork.", True),
    ("serviceAccount", "Email of the account that the hosts run as.", True),
    ("bucket", "Name of the bucket that holds the weights.", True),
    ("apiKeySecret", "Name of the API key's version in Secret Manager.", True),
)


def endpoint_schema() -> tuple[JsonObject, dict[str, JsonObject]]:
    """The component's entry, and the types of its inputs by token."""
    written = StackSettings.model_json_schema(schema_generator=DescribedSchema)
    kept = KeptNames.model_json_schema(schema_generator=DescribedSchema)
    definitions = {**written["$defs"], KeptNames.__name__: kept}
    sections = {name: written["properties"][name] for name in SECTIONS}
    sections["catalog"] = {
        **sections["catalog"],
        "description": "Rows of your own about accelerators, zones, prices, models and images, each"
        " with its source; a row replaces the one of the same name. No catalog.yaml is read.",
    }
    sections[NAMES] = {
        "$ref": f"#/$defs/{KeptNames.__name__}",
        "description": "What it was called by before project, stack or name were changed: with"
        " that, nothing is replaced. By default what it is called by now.",
    }
    types = _Types(definitions)
    entry: JsonObject = {
        "isComponent": True,
        "description": (
            "An OpenAI-compatible vLLM server on a TPU slice, with everything that it needs:"
            " network, identity, bucket, secrets. Its inputs are the sections of a stack file of"
            " tpuflex, with the same keys; all of them have to be known, and plain, at the preview."
            " `model.weights.manifest_sha256` is required, as `tpuflex weights hash` prints it."
        )
        + endpoint_example(),
        "inputProperties": dict(types.properties("", sections)),
        "requiredInputs": [
            name for name in written["required"] if name in SECTIONS and name not in DEFAULTS
        ],
        "properties": {name: {**STRING, "description": text} for name, text, _ in _OUTPUTS},
        "required": [name for name, _, always in _OUTPUTS if always],
    }
    return entry, types.made


class _Types:
    """Object types and enumerations, made from the definitions of a JSON Schema as they are used.

    Attributes:
        made: by token.
    """

    def __init__(self, definitions: Mapping[str, dict[str, Any]]) -> None:
        self.made: dict[str, JsonObject] = {}
        self._definitions = definitions

    def properties(
        self, within: str, described: Mapping[str, dict[str, Any]]
    ) -> Iterator[tuple[str, JsonObject]]:
        """Each property of the type ``within`` (none for the component), by name."""
        for name, schema in described.items():
            text = " ".join(str(schema.get("description", "")).split())
            type_ = self._type_of(schema, enum_name(within or "Endpoint", name))
            yield name, {**type_, "description": text or f"`{name}` of `vllm serve`."}

    def _type_of(self, schema: object, enum: str) -> JsonObject:
        if not isinstance(schema, dict):
            return _ANY
        if "$ref" in schema:
            return self._object(str(schema["$ref"]).rpartition("/")[2])
        if "anyOf" in schema:
            given = [choice for choice in schema["anyOf"] if choice.get("type") != "null"]
            return self._type_of(given[0], enum) if len(given) == 1 else _ANY
        if "enum" in schema:
            return self._enumeration(enum, schema["enum"])
        if schema.get("type") == "array":
            return {"type": "array", "items": self._type_of(schema.get("items"), enum)}
        if schema.get("type") == "object":
            # Names that a pattern restricts are any names to Pulumi.
            patterns = list(schema.get("patternProperties", {}).values())
            inner = patterns[0] if patterns else schema.get("additionalProperties")
            return {"type": "object", "additionalProperties": self._type_of(inner, enum)}
        return {"type": schema["type"]} if schema.get("type") in _SCALARS else _ANY

    def _object(self, name: str) -> JsonObject:
        token, schema = _token(name), self._definitions[name]
        if token not in self.made:
            self.made[token] = {
                "type": "object",
                "description": " ".join(str(schema["description"]).split()),
                "properties": dict(self.properties(name, schema["properties"])),
                "required": [*schema.get("required", ())],
            }
        return {"$ref": f"#/types/{token}"}

    def _enumeration(self, name: str, words: list[str]) -> JsonObject:
        token = _token(name)
        self.made[token] = {
            **STRING,
            "description": "One of these words.",
            "enum": enum_members(words),
        }
        return {"$ref": f"#/types/{token}"}


def _token(name: str) -> str:
    return f"{PACKAGE}:index:{name}"
