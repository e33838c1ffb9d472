"""Pieces of Python text that are made of a package schema: names, types, properties, docstrings."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic.alias_generators import to_snake

Schema = Mapping[str, Any]

_WIDTH = 100
_SCALARS = {"string": "str", "boolean": "bool", "integer": "int"}


def name_in(token: str) -> str:
    return token.rpartition(":")[2]


def references(value: object) -> set[str]:
    """Tokens of all types that ``value`` refers to."""
    if isinstance(value, list):
        return set().union(*map(references, value))
    if not isinstance(value, dict):
        return set()
    own = {str(value["$ref"]).removeprefix("#/types/")} if "$ref" in value else set()
    return own.union(*map(references, value.values()))


def with_words(value: Any, enums: Collection[str]) -> Any:
    """``value`` with text wherever it refers to one of ``enums``: their members are text, and so
    is what programs have written until now."""
    if isinstance(value, list):
        return [with_words(item, enums) for item in value]
    if not isinstance(value, dict):
        return value
    if str(value.get("$ref", "")).removeprefix("#/types/") in enums:
        rest = {key: item for key, item in value.items() if key != "$ref"}
        return {**rest, "type": "string"}
    return {key: with_words(item, enums) for key, item in value.items()}


def property_lines(name: str, type_: str, arguments: str) -> list[str]:
    """The line of one attribute, broken where it is too long as the formatter does it."""
    line = f"    {name}: {type_} = pulumi.property({arguments})"
    if len(line) <= _WIDTH:
        return [line]
    head = f"    {name}: {type_} = pulumi.property("
    if len(head) <= _WIDTH:
        return [head, f"        {arguments}", "    )"]
    return [f"    {name}: {type_} = (", f"        pulumi.property({arguments})", "    )"]


def docstring(text: str, indent: int) -> list[str]:
    return wrapped(f'"""{text}"""', indent, indent)


def wrapped(text: str, indent: int, hanging: int) -> list[str]:
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def python_names(text: str, properties: Schema) -> str:
    """``text`` with the names of inputs as Python spells them."""
    return re.sub(r"`(\w+)`", lambda m: f"`{to_snake(m[1])}`" if m[1] in properties else m[0], text)


def without_examples(text: str) -> str:
    return text.partition("{{% examples %}}")[0].strip()


def required_first(properties: Schema, required: list[str]) -> Iterator[tuple[str, Schema]]:
    yield from ((wire, kind) for wire, kind in properties.items() if wire in required)
    yield from ((wire, kind) for wire, kind in properties.items() if wire not in required)


def input_type(kind: Schema) -> str:
    if "$ref" in kind:
        return f"{name_in(kind['$ref'])}Args"
    if kind["type"] == "array":
        return f"Sequence[pulumi.Input[{input_type(kind['items'])}]]"
    if kind["type"] == "object":
        return f"Mapping[str, pulumi.Input[{input_type(kind['additionalProperties'])}]]"
    return _SCALARS[kind["type"]]


def output_type(kind: Schema) -> str:
    if "$ref" in kind:
        return name_in(kind["$ref"])
    if kind["type"] == "array":
        return f"Sequence[{output_type(kind['items'])}]"
    if kind["type"] == "object":
        return f"Mapping[str, {output_type(kind['additionalProperties'])}]"
    return _SCALARS[kind["type"]]
