"""Property values on the wire, to and from plain values."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

from pulumi_plugin.values import (
    OUTPUT_SIGNATURE,
    RESOURCE_SIGNATURE,
    SECRET_SIGNATURE,
    SIGNATURE_KEY,
    UNKNOWN,
    UNKNOWN_SENTINELS,
    Properties,
    Value,
    has_unknown,
)
from pulumi_plugin.wire import decode, encode, secret_keys

OUTPUT = {SIGNATURE_KEY: OUTPUT_SIGNATURE}
RESOURCE = {SIGNATURE_KEY: RESOURCE_SIGNATURE}
VALUES: dict[str, Any] = {
    "text": "x",
    "number": 3,
    "part": 1.5,
    "flag": True,
    "list": ["a", {"b": [1]}],
    "object": {"a": None, "b": {"c": "d"}},
}


names = st.from_regex(r"[a-z][A-Za-z0-9]{0,8}", fullmatch=True).filter(lambda n: n != "secret")
scalars = st.one_of(st.booleans(), st.integers(-(2**53), 2**53), st.text(max_size=20))
values: st.SearchStrategy[Value] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


def struct_of(values: dict[str, Any]) -> Struct:
    """``values`` as a struct of the protocol."""
    struct = Struct()
    struct.update(values)
    return struct


def test_values_survive_the_wire() -> None:
    """Values of all types are decoded as they were; whole numbers as such, nulls left out."""
    assert encode({"a": None, "b": 1}) == struct_of({"b": 1})
    assert decode(encode({**VALUES, "none": None})) == VALUES
    assert isinstance(decode(encode(VALUES))["number"], int)


@given(st.dictionaries(names, values, max_size=5), st.data())
def test_all_values_survive_the_wire_as_do_marks_of_secrets(
    properties: Properties, data: st.DataObject
) -> None:
    """Any values are decoded as they were encoded, with the same secrets."""
    secrets: set[str] = set()
    if properties:
        secrets = data.draw(st.sets(st.sampled_from(sorted(properties))))
    struct = encode(properties, secrets=secrets)

    assert decode(struct) == properties
    assert secret_keys(struct) == secrets


def test_a_secret_inside_marks_the_property_that_holds_it() -> None:
    """The whole property is secret; its value is plain."""
    inner = {SIGNATURE_KEY: SECRET_SIGNATURE, "value": "hunter2"}
    struct = struct_of({"labels": {"a": inner}, "list": ["x", inner], "plain": 1})

    assert decode(struct) == {"labels": {"a": "hunter2"}, "list": ["x", "hunter2"], "plain": 1}
    assert secret_keys(struct) == {"labels", "list"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(UNKNOWN, True), ({"a": [{"b": UNKNOWN}]}, True), ({"a": ["b", 1, None]}, False)],
)
def test_unknowns_are_found_wherever_they_are(value: Value, expected: bool) -> None:
    """A value that contains an unknown is unknown."""
    assert has_unknown(value) is expected


@pytest.mark.parametrize("sentinel", sorted(UNKNOWN_SENTINELS))
def test_all_sentinels_are_unknown(sentinel: str) -> None:
    """Of any type, at any depth; shown by name."""
    struct = struct_of({"a": sentinel, "b": [sentinel], "c": {"d": sentinel}})

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
    """Only signed objects are unwrapped."""
    struct = struct_of({"a": [wire]})

    assert decode(struct) == {"a": [value]}
    assert secret_keys(struct) == ({"a"} if secret else set())


@pytest.mark.parametrize(
    ("signed", "more", "value", "secret"),
    [
        (OUTPUT, {"value": "x"}, "x", False),
        (OUTPUT, {"value": 3.0}, 3, False),
        (OUTPUT, {"value": "x", "secret": True}, "x", True),
        (OUTPUT, {}, UNKNOWN, False),
        (OUTPUT, {"value": None}, None, False),
        (RESOURCE, {"urn": "urn:x", "id": "the-id"}, "the-id", False),
        (RESOURCE, {"urn": "urn:x"}, "urn:x", False),
    ],
)
def test_outputs_and_resources_are_unwrapped(
    signed: Any, more: Any, value: Any, secret: bool
) -> None:
    """An output is its value, unknown if it has none, secret if it says so; a resource its id."""
    struct = struct_of({"a": [{**signed, **more}]})

    assert decode(struct) == {"a": [value]}
    assert secret_keys(struct) == ({"a"} if secret else set())
