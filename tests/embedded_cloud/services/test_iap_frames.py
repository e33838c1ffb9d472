"""Frames of SSH relay v4, judged by the bytes that gcloud's own code makes and reads."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded_cloud.services.iap.session import (
    MOST_DATA,
    Ack,
    BadFrameError,
    Data,
    ack,
    connected,
    data,
    parse,
    reconnected,
)


def test_what_the_relay_sends() -> None:
    """As gcloud's `ExtractSubprotocol…` read them: tag, then length and bytes, or a count."""
    assert connected("abc") == b"\0\1\0\0\0\3abc"
    assert reconnected(258) == b"\0\2\0\0\0\0\0\0\1\2"
    assert data(b"xy") == b"\0\4\0\0\0\2xy"
    assert ack(3) == b"\0\7\0\0\0\0\0\0\0\3"


@given(st.binary(max_size=MOST_DATA))
def test_what_a_client_sends(payload: bytes) -> None:
    """As gcloud's `CreateSubprotocolDataFrame` and `CreateSubprotocolAckFrame` pack them."""
    assert parse(struct.pack(f">HI{len(payload)}s", 4, len(payload), payload)) == Data(payload)
    assert parse(struct.pack(">HQ", 7, len(payload))) == Ack(len(payload))


@given(st.binary(max_size=40))
def test_anything_else_is_refused(message: bytes) -> None:
    """A message is a frame or an error of the relay, never anything else."""
    try:
        frame = parse(message)
    except BadFrameError:
        return
    assert message[:2] in (b"\0\4", b"\0\7")
    assert isinstance(frame, Data | Ack)


@pytest.mark.parametrize(
    "message", [b"", b"\0", b"\0\4\0\0\0\2x", b"\0\4\0\0\0\1xy", b"\0\7\0", b"\0\1\0\0\0\1x"]
)
def test_short_and_long_frames(message: bytes) -> None:
    """A length that is not the message's, and frames that only the relay sends."""
    with pytest.raises(BadFrameError):
        parse(message)
