"""How the fields of the request's table, and of what it answers, are spelt in a Pulumi schema."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel, JsonValue
from pydantic.alias_generators import to_camel, to_pascal
from pydantic.fields import FieldInfo

from tpuflex.naming import PACKAGE

JsonObject = dict[str, JsonValue]

STRING: JsonObject = {"type": "string"}
STRINGS: JsonObject = {"type": "array", "items": STRING}


def properties(model: type[BaseModel], within: str = "") -> dict[str, JsonObject]:
    """Every field of ``model``, with its type and text.

    Args:
        model: the fields.
        within: name of the object type that they are in; none for a resource's own.
    """
    return {
        to_camel(name): {
            **_type_of(field.annotation, enum_name(within, name)),
            "description": " ".join((field.description or "").split()),
        }
        for name, field in model.model_fields.items()
    }


def scalar_default(field: FieldInfo) -> JsonObject:
    """The default of ``field``, where a schema can say it: of text, numbers and switches."""
    if isinstance(field.default, str | bool | int):
        return {"default": field.default}
    return {}


def types(model: type[BaseModel], within: str = "") -> dict[str, JsonObject]:
    """The object and enumeration types that the fields of ``model`` have, at any depth."""
    found: dict[str, JsonObject] = {}
    for name, field in model.model_fields.items():
        for part in _parts(field.annotation):
            if get_origin(part) is Literal:
                values = enum_members(get_args(part))
                called = enum_name(within, name)
                text = f"What `{to_camel(name)}` may be."
                found[_token(called)] = {**STRING, "description": text, "enum": values}
            elif isinstance(part, type) and issubclass(part, BaseModel):
                found |= object_types(part)
    return found


def object_types(model: type[BaseModel], *, answered: bool = False) -> dict[str, JsonObject]:
    """The object type that ``model`` is, and those of its fields.

    Args:
        model: the object.
        answered: whether only the provider makes it, which then leaves out nothing but None.
    """
    required = [
        to_camel(name)
        for name, field in model.model_fields.items()
        if field.is_required() or (answered and field.default is not None)
    ]
    return {
        _token(model.__name__): {**_object(model), "required": [*required]},
        **types(model, model.__name__),
    }


def _object(model: type[BaseModel]) -> JsonObject:
    described = properties(model, model.__name__)
    for name, field in model.model_fields.items():
        described[to_camel(name)] |= scalar_default(field)
    return {
        "type": "object",
        "description": " ".join((model.__doc__ or "").split()),
        "properties": {**described},
    }


def reference(name: str) -> JsonObject:
    """The type ``name`` of this package."""
    return {"$ref": f"#/types/{_token(name)}"}


def enum_members(words: Iterable[str]) -> list[JsonValue]:
    """The members of an enumeration of ``words``."""
    # Named, because code generators take words in capitals apart: FLE_X_START.
    return [{"name": to_pascal(word.lower()), "value": word} for word in words]


def enum_name(within: str, field: str) -> str:
    """The name of an enumeration: that of its field, after that of the object it is in."""
    return f"{within}{to_pascal(field)}"


def _token(name: str) -> str:
    return f"{PACKAGE}:tpu:{name}"


def _parts(annotation: object) -> Iterator[object]:
    yield annotation
    for argument in get_args(annotation):
        yield from _parts(argument)


def _type_of(annotation: object, enum: str) -> JsonObject:
    """The schema of a field's type. An ``Annotated`` type is what it annotates; a choice of words
    is the enumeration ``enum``."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        (only,) = (argument for argument in arguments if argument is not NoneType)
        return _type_of(only, enum)
    if origin is tuple:
        return {"type": "array", "items": _type_of(arguments[0], enum)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _type_of(arguments[1], enum)}
    if origin is Literal:
        return reference(enum)
    if arguments:
        return _type_of(arguments[0], enum)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return reference(annotation.__name__)
    kinds = {str: "string", bool: "boolean", int: "integer"}
    assert isinstance(annotation, type)  # noqa: S101 - what arguments are made of
    return {"type": kinds[annotation]}
