"""Pulumi property values on the wire, to and from plain values.

Signatures and the unknown sentinel: `sdk/go/common/resource/properties.go` and
`sdk/go/common/resource/plugin/rpc.go` of pulumi/pulumi, v3.256.0.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TypeAlias

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct
from pydantic import JsonValue

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a type tag
OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
UNKNOWN_STRING = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"  # what engines send for any type
UNKNOWN_SENTINELS = frozenset(
    {
        UNKNOWN_STRING,
        "1c4a061d-8072-4f0a-a4cb-0ff528b18fe7",  # bool
        "3eeb2bf0-c639-47a8-9e75-3b44932eb421",  # number
        "6a19a0b0-7e62-4c92-b797-7f8e31da9cc2",  # array
        "030794c1-ac77-496b-92df-f27374a8bd58",  # asset
        "e48ece36-62e2-4504-bad9-02848725956a",  # archive
        "dd056dcd-154b-4c76-9bd3-c8f88648b5ff",  # object
    }
)


class Unknown(Enum):
    """A value that is only known once something else has been created."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown.UNKNOWN
Value: TypeAlias = "str | float | int | bool | Unknown | list[Value] | dict[str, Value] | None"
Properties = dict[str, Value]


def decode(struct: Struct) -> Properties:
    """Plain values; secrets unwrapped, unknowns as :data:`UNKNOWN`, nulls left out."""
    decoded = _decode(MessageToDict(struct))
    assert isinstance(decoded, dict)  # noqa: S101 - a Struct is an object
    return {key: value for key, value in decoded.items() if value is not None}


def secret_keys(*structs: Struct) -> frozenset[str]:
    """Top-level keys that hold a secret somewhere, in any of ``structs``."""
    return frozenset(
        key
        for struct in structs
        for key, value in MessageToDict(struct).items()
        if _has_secret(value)
    )


def encode(values: Properties, *, secrets: Iterable[str] = ()) -> Struct:
    """A wire struct; the values of keys in ``secrets`` are marked as secret, None is left out."""
    marked = frozenset(secrets)
    wrapped = {
        key: {SIGNATURE_KEY: SECRET_SIGNATURE, "value": _plain(value)}
        if key in marked
        else _plain(value)
        for key, value in values.items()
        if value is not None
    }
    return ParseDict(wrapped, Struct())


def has_unknown(value: Value) -> bool:
    """Whether ``value`` is unknown, wholly or in part."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def _plain(value: Value) -> JsonValue:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return UNKNOWN_STRING if isinstance(value, Unknown) else value


def _decode(value: object) -> Value:
    if isinstance(value, str):
        return UNKNOWN if value in UNKNOWN_SENTINELS else value
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if isinstance(value, dict):
        signature = value.get(SIGNATURE_KEY)
        if signature == SECRET_SIGNATURE:
            return _decode(value.get("value"))
        if signature == OUTPUT_SIGNATURE:
            return _decode(value["value"]) if "value" in value else UNKNOWN
        return {key: _decode(item) for key, item in value.items()}
    if isinstance(value, float) and value.is_integer():
        return int(value)  # a Struct only knows doubles
    if value is None or isinstance(value, (bool, int, float)):
        return value
    raise TypeError(f"not a property value: {type(value).__name__}")


def _has_secret(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_has_secret, value))
    if isinstance(value, dict):
        if value.get(SIGNATURE_KEY) == SECRET_SIGNATURE or value.get("secret") is True:
            return True
        return any(map(_has_secret, value.values()))
    return False
