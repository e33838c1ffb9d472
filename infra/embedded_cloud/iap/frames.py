"""The frames of SSH relay v4, each one WebSocket message: a tag of 2 bytes, then its fields.

Source: gcloud 528 (`googlecloudsdk/api_lib/compute/iap_tunnel_websocket_utils.py`) and
GoogleCloudPlatform/iap-desktop (`SshRelayMessageTag`, `SshRelayCloseCode`).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

SUBPROTOCOL = "relay.tunnel.cloudproxy.app"
#: Bytes of data in one frame at most.
MOST_DATA = 16 * 1024

_CONNECTED, _RECONNECTED, _DATA, _ACK = 1, 2, 4, 7


class Close(IntEnum):
    """Why the relay closes a connection.

    Attributes:
        reason: the words that go with the code, as gcloud was seen to show them.
    """

    reason: str

    def __new__(cls, code: int, reason: str) -> Close:
        member = int.__new__(cls, code)
        member._value_ = code
        member.reason = reason
        return member

    NORMAL = (1000, "")
    SID_UNKNOWN = (4001, "sid unknown")
    SID_IN_USE = (4002, "sid in use")
    NO_BACKEND = (4003, "failed to connect to backend")
    BAD_ACK = (4005, "bad ack")
    INVALID_OPCODE = (4007, "invalid websocket opcode")
    INVALID_TAG = (4008, "invalid tag")
    NOT_AUTHORIZED = (4033, "not authorized")
    LOOKUP_FAILED = (4047, "Failed to lookup instance")


class BadFrameError(ValueError):
    """A message that is no frame that a client sends.

    Attributes:
        close: how the relay closes the connection.
    """

    def __init__(self, close: Close) -> None:
        super().__init__(close.reason)
        self.close = close


@dataclass(frozen=True, slots=True)
class Data:
    """Bytes for the host."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Ack:
    """So many bytes were received in all."""

    received: int


def connected(sid: str) -> bytes:
    """The relay's first frame: the session's id, by which a client connects again."""
    raw = sid.encode()
    return struct.pack(">HI", _CONNECTED, len(raw)) + raw


def reconnected(received: int) -> bytes:
    """The relay's first frame after a client has connected again: what it has received in all."""
    return struct.pack(">HQ", _RECONNECTED, received)


def data(payload: bytes) -> bytes:
    """Bytes from the host."""
    return struct.pack(">HI", _DATA, len(payload)) + payload


def ack(received: int) -> bytes:
    """The relay has received so many bytes in all."""
    return struct.pack(">HQ", _ACK, received)


def parse(message: bytes) -> Data | Ack:
    """A client's frame.

    Raises:
        BadFrameError: it is none, or longer than it says.
    """
    try:
        (tag,) = struct.unpack_from(">H", message)
        if tag == _ACK:
            (received,) = struct.unpack(">Q", message[2:])
            return Ack(received)
        if tag == _DATA:
            (length,) = struct.unpack_from(">I", message, 2)
            if length != len(message) - 6 or length > MOST_DATA:
                raise BadFrameError(Close.INVALID_TAG)
            return Data(message[6:])
    except struct.error as error:
        raise BadFrameError(Close.INVALID_TAG) from error
    raise BadFrameError(Close.INVALID_TAG)
