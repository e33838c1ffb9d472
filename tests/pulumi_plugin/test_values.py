"""Property values on the wire, to and from plain values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct

from pulumi_plugin.values import UNKNOWN, UNKNOWN_SENTINELS
from pulumi_plugin.wire import decode, encode, secret_keys

VALUES: dict[str, Any] = {
    "text": "x",
    "number": 3,
    "part": 1.5,
    "flag": True,
    "list": ["a", {"b": [1]}],
    "object": {"a": None, "b": {"c": "d"}},
}


def test_values_survive_the_wire() -> None:
    """Whatever a property may be comes back as it was; whole numbers as such, nulls not at all."""
    assert decode(encode({**VALUES, "none": None})) == VALUES
    assert isinstance(decode(encode(VALUES))["number"], int)


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN_SENTINELS))
def test_the_unknown_is_known_by_its_sentinels(sentinel: str) -> None:
    """Of whatever type, and wherever it is; shown by name."""
    struct = Struct()
    struct.update({"a": sentinel, "b": [sentinel], "c": {"d": sentinel}})

    assert decode(struct) == {"a": UNKNOWN, "b": [UNKNOWN], "c": {"d": UNKNOWN}}
    assert repr(UNKNOWN) == "UNKNOWN"


@pytest.mark.parametrize(
    ("wire", "value", "secret"),
    [
        ({"1b": "x"}, {"1b": "x"}, False),
        ({"secret": True}, {"secret": True}, True),
        ({"secret": False}, {"secret": False}, False),
    ],
)
def test_what_only_looks_like_a_signature(wire: Any, value: Any, secret: bool) -> None:
    """An object is what it says; only signed ones are unwrapped."""
    struct = Struct()
    struct.update({"a": [wire]})

    assert decode(struct) == {"a": [value]}
    assert secret_keys(struct) == ({"a"} if secret else set())


@pytest.mark.parametrize(
    ("given", "value", "secret"),
    [
        ({"value": "x"}, "x", False),
        ({"value": "x", "secret": True}, "x", True),
        ({}, UNKNOWN, False),
        ({"value": None}, None, False),
    ],
)
def test_outputs_are_unwrapped(given: Any, value: Any, secret: bool) -> None:
    """An output is its value, unknown if it has none, secret if it says so."""
    struct = Struct()
    signed = {"4dabf18193072939515e22adb298388d": "d0e6a833031e9bbcd3f4e8bde6ca49a4", **given}
    struct.update({"a": [signed]})

    assert decode(struct) == {"a": [value]}
    assert secret_keys(struct) == ({"a"} if secret else set())
