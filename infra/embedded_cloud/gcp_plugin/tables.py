"""All types that the stand-in serves, their package schema, and the refusal of all others."""

from __future__ import annotations

import json
from functools import cache

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.gcp_plugin import (
    table_compute,
    table_dns,
    table_iam,
    table_kms,
    table_monitoring,
    table_projects,
    table_router,
    table_storage,
)
from embedded_cloud.gcp_plugin.fields import Property, Use
from embedded_cloud.gcp_plugin.resource_type import ResourceType
from tpuflex.errors import TpuflexError

#: The plugin that this one stands in for.
PACKAGE = "gcp"
VERSION = "10.2.0"

_ANY = "pulumi.json#/Any"

TYPES: dict[str, ResourceType] = {
    row.token: row
    for row in sorted(
        (
            *table_compute.TYPES,
            *table_dns.TYPES,
            *table_iam.TYPES,
            *table_kms.TYPES,
            *table_monitoring.TYPES,
            *table_projects.TYPES,
            *table_router.TYPES,
            *table_storage.TYPES,
        ),
        key=lambda row: row.token,
    )
}


class NotServedError(TpuflexError):
    """A type or function of the published plugin that the stand-in does not have."""


def row_of(token: str) -> ResourceType:
    """The row of the type ``token``.

    Raises:
        NotServedError: the stand-in does not serve that type.
    """
    try:
        return TYPES[token]
    except KeyError:
        raise not_served(token) from None


def not_served(token: str) -> NotServedError:
    """The refusal of ``token``, naming everything that is served."""
    return NotServedError(
        f"the embedded cloud's stand-in for the gcp plugin does not serve {token}; "
        f"it serves: {', '.join(TYPES)}",
        hint="on the embedded cloud use one of these, or install the published gcp plugin",
    )


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
    kind: JsonObject = {"type": item.type.json_type}
    if item.type.json_type == "array":
        kind["items"] = {"$ref": _ANY}
    elif item.type.json_type == "object":
        kind["additionalProperties"] = {"$ref": _ANY}
    return kind
