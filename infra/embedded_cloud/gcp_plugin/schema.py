"""The package schema of what is served: enough for the engine, generated from the tables."""

from __future__ import annotations

import json
from functools import cache

from embedded_cloud.gcp_plugin.fields import Property, Use
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from embedded_cloud.gcp_plugin.types import PACKAGE, TYPES, VERSION
from embedded_cloud.json_types import JsonObject

_ANY = "pulumi.json#/Any"


@cache
def package_schema() -> str:
    """The schema as JSON text; nested objects are left open."""
    resources: JsonObject = {token: _resource(row) for token, row in TYPES.items()}
    schema: JsonObject = {
        "name": PACKAGE,
        "version": VERSION,
        "description": "The embedded cloud's stand-in for the published gcp plugin.",
        "resources": resources,
        "provider": {"type": "object"},
    }
    return json.dumps(schema, sort_keys=True)


def _resource(row: ResourceType) -> JsonObject:
    return {
        "properties": {item.name: _type(item) for item in row.properties},
        "required": [item.name for item in row.properties if item.use is not Use.OPTIONAL],
        "inputProperties": {item.name: _type(item) for item in row.inputs},
        "requiredInputs": [item.name for item in row.inputs if item.use is Use.REQUIRED],
    }


def _type(item: Property) -> JsonObject:
    kind: JsonObject = {"type": item.shape.type_name}
    if item.shape.type_name == "array":
        kind["items"] = {"$ref": _ANY}
    elif item.shape.type_name == "object":
        kind["additionalProperties"] = {"$ref": _ANY}
    return kind
