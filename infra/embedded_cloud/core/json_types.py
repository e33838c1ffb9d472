"""JSON as it comes off the wire, with readers that narrow its type.

Values read from a request have passed the contract check, so a reader returns its default
for a field that is absent and raises :class:`TypeError` only on a bug.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

JsonValue: TypeAlias = dict[str, "JsonValue"] | list["JsonValue"] | str | int | float | bool | None
JsonObject: TypeAlias = dict[str, JsonValue]


def text(container: Mapping[str, object], key: str, default: str = "") -> str:
    """The string at ``key``, or ``default`` when it is absent or null."""
    value = container.get(key)
    if value is None:
        return default
    if isinstance(value, str):
        return value
    raise TypeError(f"{key} is {type(value).__name__}, not a string")


def number(container: Mapping[str, object], key: str, default: float = 0.0) -> float:
    """The number at ``key`` (also a decimal string, as int64 travels), or ``default``."""
    value = container.get(key)
    if value is None:
        return default
    if isinstance(value, int | float | str):
        return float(value)
    raise TypeError(f"{key} is {type(value).__name__}, not a number")


def flag(container: Mapping[str, object], key: str, default: bool = False) -> bool:
    """The boolean at ``key``, or ``default``."""
    value = container.get(key)
    return default if value is None else bool(value)


def child(container: Mapping[str, object], key: str) -> JsonObject:
    """The object at ``key``, or an empty one (not attached to ``container``)."""
    value = container.get(key)
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise TypeError(f"{key} is {type(value).__name__}, not an object")


def children(container: Mapping[str, object], key: str) -> list[JsonObject]:
    """The list of objects at ``key``, or an empty list."""
    return [as_object(item) for item in items(container, key)]


def items(container: Mapping[str, object], key: str) -> list[JsonValue]:
    """The list at ``key``, or an empty list."""
    value = container.get(key)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise TypeError(f"{key} is {type(value).__name__}, not a list")


def texts(container: Mapping[str, object], key: str) -> list[str]:
    """The list of strings at ``key``, or an empty list."""
    return [str(item) for item in items(container, key)]


def string_map(container: Mapping[str, object], key: str) -> dict[str, str]:
    """The string-to-string object at ``key`` (labels, metadata), or an empty one."""
    return {name: str(value) for name, value in child(container, key).items()}


def as_object(value: JsonValue) -> JsonObject:
    """``value``, which must be an object."""
    if isinstance(value, dict):
        return value
    raise TypeError(f"{type(value).__name__} is not a JSON object")


def merge(before: JsonValue, patch: JsonObject) -> JsonObject:
    """``before`` with the JSON merge patch ``patch`` applied (RFC 7386).

    Null removes a field, objects merge, everything else replaces.
    """
    merged = dict(before) if isinstance(before, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict):
            merged[key] = merge(merged.get(key), value)
        else:
            merged[key] = value
    return merged
