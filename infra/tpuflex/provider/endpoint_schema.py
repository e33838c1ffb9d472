"""The component in the package schema: its inputs are the sections of a stack file, made from the
settings' own models. The keys stay as they are in a stack file.

Imported when somebody asks for the schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tpuflex.naming import PACKAGE
from tpuflex.provider.endpoint_example import endpoint_example
from tpuflex.provider.endpoint_inputs import DEFAULTS, NAMES, SECTIONS, KeptNames
from tpuflex.provider.property_types import STRING, JsonObject, enum_members, enum_name
from tpuflex.settings.descriptions import DescribedSchema
from tpuflex.settings.model import StackSettings

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
