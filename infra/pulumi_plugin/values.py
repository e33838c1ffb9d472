"""Property values as plain Python values, and the signatures that mark special ones. Pure.

Source of the constants: `sdk/go/common/resource/properties.go` and
`sdk/go/common/resource/plugin/rpc.go` of pulumi/pulumi, v3.256.0.
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias

SIGNATURE_KEY = "4dabf18193072939515e22adb298388d"
SECRET_SIGNATURE = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 - a type tag
OUTPUT_SIGNATURE = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE_SIGNATURE = "5cf8f73096256a8f31e491e813e4eb8e"
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
    """A value that is only known once another resource has been created."""

    UNKNOWN = "unknown"

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN = Unknown.UNKNOWN
Value: TypeAlias = "str | float | int | bool | Unknown | list[Value] | dict[str, Value] | None"
Properties: TypeAlias = dict[str, Value]


def has_unknown(value: Value) -> bool:
    """Whether ``value`` is unknown, wholly or in part."""
    if isinstance(value, dict):
        return any(map(has_unknown, value.values()))
    if isinstance(value, list):
        return any(map(has_unknown, value))
    return value is UNKNOWN


def type_of(urn: str) -> str:
    """The type token in ``urn``, without the types of its parents."""
    return urn.split("::")[2].rsplit("$", 1)[-1] if urn.count("::") >= 3 else urn
