"""Property values to and from the structs of the protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from google.protobuf.json_format import MessageToDict, ParseDict
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.values import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    UNKNOWN_SENTINELS,
    UNKNOWN_STRING,
    Properties,
    Unknown,
    Value,
)


def decode(struct: Struct) -> Properties:
    """Plain values: secrets unwrapped, unknowns as :data:`UNKNOWN`, a resource as its id, nulls
    left out."""
    decoded = {key: _decode(value) for key, value in MessageToDict(struct).items()}
    return {key: value for key, value in decoded.items() if value is not None}


def secret_keys(*structs: Struct) -> frozenset[str]:
    """Top-level keys that hold a secret somewhere, in any of ``structs``."""
    return frozenset(
        key
        for struct in structs
        for key, value in MessageToDict(struct).items()
        if _has_secret(value)
    )


def encode(values: Mapping[str, Value], *, secrets: Collection[str] = ()) -> Struct:
    """A wire struct; the values of keys in ``secrets`` are marked as secret, None is left out."""
    marked = {
        key: {SIGNATURE_KEY: SECRET_SIGNATURE, "value": _plain(value)}
        if key in secrets
        else _plain(value)
        for key, value in values.items()
        if value is not None
    }
    return ParseDict(marked, Struct())


def _plain(value: Value) -> object:
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
        if signature == RESOURCE_SIGNATURE:
            return _decode(value.get("id", value.get("urn")))
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
