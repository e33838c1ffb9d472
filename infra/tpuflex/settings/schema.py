"""The JSON Schema of the stack file, docs/stack.schema.json."""

from __future__ import annotations

import json

from tpuflex.settings.model import NAMESPACE, StackSettings


def stack_file_schema() -> dict[str, object]:
    """The schema of ``Pulumi.<stack>.yaml``; keys of other namespaces are left alone."""
    sections = StackSettings.model_json_schema()
    definitions = sections.pop("$defs")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
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
            "encryptionsalt": {"type": "string"},
            "encryptedkey": {"type": "string"},
            "secretsprovider": {"type": "string"},
        },
        "additionalProperties": False,
        "$defs": definitions,
    }


def schema_text() -> str:
    """The text of ``docs/stack.schema.json``."""
    return json.dumps(stack_file_schema(), indent=2, ensure_ascii=False) + "\n"
