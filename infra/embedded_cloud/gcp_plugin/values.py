"""Property values between the engine's wire format and plain JSON values.

Two things on that wire are more than JSON: a value that is not known yet (during a preview)
and a value that is secret. Unknowns keep their wire form, the constant ``UNKNOWN``, so that
they travel through every table unchanged; secrets are unwrapped, and the names of the
top-level properties that held one are kept beside the values.

Source of the constants: ``pulumi/runtime/rpc.py`` of the Pulumi SDK.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from embedded_cloud.gcp_plugin.protocol import struct_pb2
from embedded_cloud.json_types import JsonObject, JsonValue
from tpuflex.errors import TpuflexError

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

_SIGNATURE = "4dabf18193072939515e22adb298388d"
_SECRET = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a protocol constant
_OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
_RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"


class ProtocolError(TpuflexError):
    """The engine sent a value that this plugin cannot carry (an asset, an archive)."""


@dataclass(frozen=True, slots=True)
class Properties:
    """The properties of one resource.

    Attributes:
        values: property name to plain value; an unknown is the string ``UNKNOWN``.
        secrets: names of the top-level properties that hold a secret anywhere inside.
    """

    values: JsonObject
    secrets: frozenset[str] = frozenset()


def decode(message: struct_pb2.Struct) -> Properties:
    """The properties in ``message``. Bookkeeping keys (``__defaults``, ``__meta``) are dropped.

    Raises:
        ProtocolError: a value is of a kind that no ``gcp:`` resource of ours has.
    """
    values: JsonObject = {}
    secrets: set[str] = set()
    for name, value in message.fields.items():
        if name.startswith("__"):
            continue
        values[name], secret = _decode(value)
        if secret:
            secrets.add(name)
    return Properties(values, frozenset(secrets))


def encode(values: Mapping[str, JsonValue], secrets: Collection[str] = ()) -> struct_pb2.Struct:
    """``values`` for the engine, without nulls; those named in ``secrets`` are marked secret."""
    message = struct_pb2.Struct()
    message.update(
        {
            name: {_SIGNATURE: _SECRET, "value": value} if name in secrets else value
            for name, value in values.items()
            if value is not None
        }
    )
    return message


def is_unknown(value: JsonValue) -> bool:
    """Whether ``value`` itself is not known yet."""
    return value == UNKNOWN


def has_unknown(value: JsonValue) -> bool:
    """Whether ``value`` is, or holds anywhere inside, something not known yet."""
    if isinstance(value, dict):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list):
        return any(has_unknown(item) for item in value)
    return is_unknown(value)


def _decode(value: struct_pb2.Value) -> tuple[JsonValue, bool]:
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _decode_struct(value.struct_value)
    if kind == "list_value":
        decoded = [_decode(item) for item in value.list_value.values]
        return [item for item, _ in decoded], any(secret for _, secret in decoded)
    if kind == "number_value":
        number = value.number_value
        return (int(number) if number.is_integer() else number), False
    if kind == "bool_value":
        return value.bool_value, False
    if kind == "string_value":
        return value.string_value, False
    return None, False


def _decode_struct(message: struct_pb2.Struct) -> tuple[JsonValue, bool]:
    signature = message.fields[_SIGNATURE].string_value if _SIGNATURE in message.fields else ""
    if not signature:
        decoded = {name: _decode(item) for name, item in message.fields.items()}
        plain: JsonObject = {name: item for name, (item, _) in decoded.items()}
        return plain, any(secret for _, secret in decoded.values())
    if signature == _SECRET:
        return _decode(message.fields["value"])[0], True
    if signature == _OUTPUT:
        secret = "secret" in message.fields and message.fields["secret"].bool_value
        if "value" not in message.fields:
            return UNKNOWN, secret
        inner, inner_secret = _decode(message.fields["value"])
        return inner, secret or inner_secret
    if signature == _RESOURCE:
        reference = "id" if "id" in message.fields else "urn"
        return _decode(message.fields[reference])
    raise ProtocolError("a property holds an asset or an archive; no gcp resource served here does")
