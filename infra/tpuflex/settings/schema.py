"""The JSON Schemas of the stack file and of catalog.yaml, in docs/."""

from __future__ import annotations

import json

from tpuflex.catalog.rows import CatalogRows
from tpuflex.settings.descriptions import DescribedSchema
from tpuflex.settings.model import NAMESPACE, StackSettings
from tpuflex.settings.opened import ENVIRONMENT

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def stack_file_schema() -> dict[str, object]:
    """The schema of ``Pulumi.<stack>.yaml``; keys of other namespaces are left alone."""
    sections = StackSettings.model_json_schema(schema_generator=DescribedSchema)
    definitions = sections.pop("$defs")
    return {
        "$schema": _DIALECT,
        "title": "tpuflex stack file",
        "description": sections["description"],
        "type": "object",
        "required": ["config"],
        "properties": {
            "config": {
                "type": "object",
                "required": [f"{NAMESPACE}{name}" for name in sections["required"]],
                "properties": {
                    f"{NAMESPACE}{name}": value for name, value in sections["properties"].items()
                },
                "patternProperties": {f"^(?!{NAMESPACE})[^:]+:.+$": {}},
                "additionalProperties": False,
            },
            ENVIRONMENT: {
                "description": "Environments of Pulumi ESC, which only Pulumi Cloud opens.",
                "type": ["array", "object"],
            },
            "encryptionsalt": {"type": "string"},
            "encryptedkey": {"type": "string"},
            "secretsprovider": {"type": "string"},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The text of ``docs/stack.schema.json``."""
    return _text(stack_file_schema())


def catalog_schema_text() -> str:
    """The text of ``docs/catalog.schema.json``."""
    schema = CatalogRows.model_json_schema(schema_generator=DescribedSchema)
    return _text({"$schema": _DIALECT, **schema, "title": "tpuflex catalog.yaml"})


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
