"""Entity tags and policy tags: the base64 of a two-field protobuf, as Cloud Storage's are."""

from __future__ import annotations

import base64


def object_etag(generation: int, metageneration: int) -> str:
    """The etag of one generation of an object."""
    message = b"\x08" + varint(generation) + b"\x10" + varint(metageneration)
    return base64.b64encode(message).decode()


def counter_etag(value: int) -> str:
    """The etag of what is told apart by one counter: a bucket, a bucket's policy."""
    return base64.b64encode(b"\x08" + varint(value)).decode()


def varint(value: int) -> bytes:
    """``value`` (not negative) as a protobuf base-128 integer."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        if not value:
            out.append(low)
            return bytes(out)
        out.append(low | 0x80)
