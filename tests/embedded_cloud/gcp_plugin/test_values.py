"""Property values between the engine's wire and plain JSON."""

from __future__ import annotations

import pytest
from google.protobuf import struct_pb2
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.gcp_plugin.values import (
    UNKNOWN,
    Properties,
    ProtocolError,
    decode,
    encode,
    has_unknown,
)
from embedded_cloud.json_types import JsonObject, JsonValue

SIGNATURE = "4dabf18193072939515e22adb298388d"
SECRET = "1b47061264138c4ac30d75fd1eb44270"
OUTPUT = "d0e6a833031e9bbcd3f4e8bde6ca49a4"
RESOURCE = "5cf8f73096256a8f31e491e813e4eb8e"
ASSET = "c44067f5952c0a294b673a41bacd8c17"

names = st.from_regex(r"[a-z][A-Za-z0-9]{0,8}", fullmatch=True)
scalars = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.text(max_size=20),
)
values: st.SearchStrategy[JsonValue] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4)),
    max_leaves=12,
)


def struct(values: JsonObject) -> struct_pb2.Struct:
    """``values`` as they come off the wire."""
    message = struct_pb2.Struct()
    message.update(values)
    return message


@given(st.dictionaries(names, values, max_size=5), st.data())
def test_what_is_encoded_is_decoded_again(properties: JsonObject, data: st.DataObject) -> None:
    """Values survive the wire, whole numbers stay whole, and marks of secrets come back."""
    secret: set[str] = set()
    if properties:
        secret = data.draw(st.sets(st.sampled_from(sorted(properties))))
    assert decode(encode(properties, secret)) == Properties(properties, frozenset(secret))


def test_nulls_and_bookkeeping_do_not_travel() -> None:
    """A null is an absent property, and the SDK's own keys are none of ours."""
    assert encode({"a": None, "b": 1}) == struct({"b": 1})
    assert decode(struct({"__defaults": [], "__meta": "{}", "b": 1})).values == {"b": 1}


def test_a_secret_inside_marks_the_property_that_holds_it() -> None:
    """The mark is kept for the whole property, and the plain value is what is worked with."""
    inner: JsonObject = {SIGNATURE: SECRET, "value": "hunter2"}
    decoded = decode(struct({"labels": {"a": inner}, "list": ["x", inner], "plain": 1}))
    assert decoded.values == {"labels": {"a": "hunter2"}, "list": ["x", "hunter2"], "plain": 1}
    assert decoded.secrets == {"labels", "list"}


def test_outputs_and_resource_references_are_read_as_their_values() -> None:
    """A known output is its value, an unknown one is unknown, a resource is its id."""
    decoded = decode(
        struct(
            {
                "known": {SIGNATURE: OUTPUT, "value": "v", "secret": True},
                "open": {SIGNATURE: OUTPUT},
                "resource": {SIGNATURE: RESOURCE, "urn": "urn:x", "id": "the-id"},
            }
        )
    )
    assert decoded.values == {"known": "v", "open": UNKNOWN, "resource": "the-id"}
    assert decoded.secrets == {"known"}


def test_an_asset_is_refused() -> None:
    """No resource that is served has an asset for a property."""
    with pytest.raises(ProtocolError, match="asset"):
        decode(struct({"source": {SIGNATURE: ASSET, "text": "x"}}))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (UNKNOWN, True),
        ({"a": [{"b": UNKNOWN}]}, True),
        ({"a": ["b", 1, None]}, False),
    ],
)
def test_unknowns_are_found_wherever_they_are(value: JsonValue, expected: bool) -> None:
    """A value with an unknown inside is not known."""
    assert has_unknown(value) is expected
