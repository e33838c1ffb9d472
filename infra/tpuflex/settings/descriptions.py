"""What the docstring below a field says, read when somebody asks.

pydantic's ``use_attribute_docstrings`` reads the source of every model at import: a quarter of the
time that `tpuflex memory` takes. Only a refusal and the JSON Schemas need the words.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from itertools import pairwise
from typing import cast

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import ModelSchema

from tpuflex.duration import format_duration


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
