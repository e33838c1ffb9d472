"""The JSON Schemas of the stack file and of catalog.yaml, in docs/."""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import Any, cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from tpuflex.catalog.flags import SUFFIXED, TOKEN_FLAGS
from tpuflex.catalog.rows import CatalogRows
from tpuflex.duration import format_duration
from tpuflex.settings.model import NAMESPACE, StackSettings
from tpuflex.settings.opened import ENVIRONMENT
from tpuflex.settings.serving import ServingFlags


@cache
def descriptions(model: type[BaseModel]) -> Mapping[str, str]:
    """By field of ``model``, inherited ones included, the docstring below it."""
    found: dict[str, str] = {}
    for base in reversed(model.__mro__):
        if issubclass(base, BaseModel) and base is not BaseModel:
            found |= _below_fields(inspect.getsource(base))
    return found


class DescribedSchema(GenerateJsonSchema):
    """Writes JSON Schemas whose properties have the descriptions of their fields, and defaults as a
    stack file has them."""

    def encode_default(self, dft: object) -> object:
        """The default ``dft`` in JSON: of a duration, what :func:`parse_duration` reads."""
        return format_duration(dft) if isinstance(dft, timedelta) else super().encode_default(dft)

    def model_schema(self, schema: ModelSchema) -> JsonSchemaValue:
        """The schema of one model; see :class:`pydantic.json_schema.GenerateJsonSchema`."""
        written = super().model_schema(schema)
        texts = descriptions(cast("type[BaseModel]", schema["cls"]))
        for name, value in written.get("properties", {}).items():
            if name in texts:
                value["description"] = texts[name]
        return written


def _below_fields(source: str) -> dict[str, str]:
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)  # noqa: S101 - it is the source of a class
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(definition.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def stack_file_schema() -> dict[str, object]:
    """The schema of ``Pulumi.<stack>.yaml``; keys of other namespaces are left alone."""
    sections = StackSettings.model_json_schema(schema_generator=DescribedSchema)
    definitions = sections.pop("$defs")
    _take_written_flags(definitions[ServingFlags.__name__])
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


def _take_written_flags(flags: dict[str, Any]) -> None:
    """Let a stack file have flags as vLLM's command line has them: max-model-len, and 16K."""
    dashed = [name.replace("_", "-") for name in ServingFlags.model_fields if "_" in name]
    flags["patternProperties"] = {f"^({'|'.join(dashed)})$": {}}
    for name in TOKEN_FLAGS:
        flags["properties"][name]["anyOf"].append({"type": "string", "pattern": SUFFIXED.pattern})


def schema_text() -> str:
    """The text of ``docs/stack.schema.json``."""
    return _text(stack_file_schema())


def catalog_schema_text() -> str:
    """The text of ``docs/catalog.schema.json``."""
    schema = CatalogRows.model_json_schema(schema_generator=DescribedSchema)
    return _text({"$schema": _DIALECT, **schema, "title": "tpuflex catalog.yaml"})


def _text(schema: dict[str, object]) -> str:
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
