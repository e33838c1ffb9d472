"""One relayed connection, which outlives the WebSocket that it began on.

A client whose WebSocket breaks off connects again with the session's id and says how much it has
received; what it has not is sent again.

Source: gcloud 528 (`googlecloudsdk/api_lib/compute/iap_tunnel_websocket_utils.py`) and
GoogleCloudPlatform/iap-desktop (`SshRelayMessageTag`, `SshRelayCloseCode`).
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from aiohttp import WSMsgType, web

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


#: Bytes that a client may leave unacknowledged before the host is read no further.
_MOST_UNACKNOWLEDGED = 1024 * 1024
#: Bytes from the client after which they are acknowledged (gcloud: twice a frame).
_ACKNOWLEDGED_AFTER = 2 * MOST_DATA


class Session:
    """A connection to a host, and what of it has not reached the client yet.

    Args:
        sid: its id.
        reader: what the host sends.
        writer: to the host.
    """

    def __init__(
        self, sid: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.sid = sid
        self.received = 0
        self._free = asyncio.Event()
        self._free.set()
        self._reader = reader
        self._writer = writer
        self._unacknowledged = bytearray()
        self._acknowledged = 0
        self._ended = False
        self._changed = asyncio.Condition()
        self._pump = asyncio.create_task(self._read_host())

    async def serve(self, socket: web.WebSocketResponse, start: int) -> bool:
        """Relay over ``socket`` until either side ends; whether the session is over then, too.

        Args:
            socket: a WebSocket that was told that it is connected.
            start: so many bytes has the client received before.
        """
        self._free.clear()
        sender = asyncio.create_task(self._send(socket, start))
        receiver = asyncio.create_task(self._receive(socket))
        try:
            await asyncio.wait({sender, receiver}, return_when=asyncio.FIRST_COMPLETED)
            if receiver.done():
                return receiver.result()
            sender.result()  # the host has ended, unless the client went away
            await _cancelled(receiver)
            await socket.close(code=Close.NORMAL)
            return True
        finally:
            self._free.set()
            await _cancelled(sender)
            await _cancelled(receiver)

    async def is_free(self, *, within: float) -> bool:
        """Whether no WebSocket carries it, or none does any more within so many seconds: that one
        has broken off is noticed here later than by its client."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._free.wait(), within)
        return self._free.is_set()

    def has_sent(self, count: int) -> bool:
        """Whether a client can go on from its first ``count`` bytes."""
        return self._acknowledged <= count <= self._acknowledged + len(self._unacknowledged)

    async def end(self) -> None:
        """Close the connection to the host."""
        self._pump.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._pump
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def _read_host(self) -> None:
        chunk = b"-"
        while chunk:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: len(self._unacknowledged) < _MOST_UNACKNOWLEDGED
                )
            try:
                chunk = await self._reader.read(MOST_DATA)
            except OSError:
                chunk = b""
            async with self._changed:
                self._unacknowledged += chunk
                self._ended = not chunk
                self._changed.notify_all()

    async def _send(self, socket: web.WebSocketResponse, sent: int) -> None:
        while True:
            chunk = await self._after(sent)
            if not chunk:
                return
            await socket.send_bytes(data(chunk))
            sent += len(chunk)

    async def _after(self, sent: int) -> bytes:
        """What follows the first ``sent`` bytes, once there is something; nothing at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._total > sent or self._ended)
            begin = sent - self._acknowledged
            return bytes(self._unacknowledged[begin : begin + MOST_DATA])

    async def _receive(self, socket: web.WebSocketResponse) -> bool:
        """Take frames until the WebSocket ends; whether the client closed it, or must not go on."""
        told = self.received
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                await refuse(socket, Close.INVALID_OPCODE)
                return True
            try:
                frame = parse(message.data)
                await self._take(frame)
            except BadFrameError as error:
                await refuse(socket, error.close)
                return True
            except OSError:
                return True
            if self.received - told >= _ACKNOWLEDGED_AFTER:
                told = self.received
                await socket.send_bytes(ack(told))
        return socket.close_code == Close.NORMAL

    async def _take(self, frame: Data | Ack) -> None:
        match frame:
            case Data(payload):
                self._writer.write(payload)
                await self._writer.drain()
                self.received += len(payload)
            case Ack(received):
                if not self._acknowledged <= received <= self._total:
                    raise BadFrameError(Close.BAD_ACK)
                async with self._changed:
                    del self._unacknowledged[: received - self._acknowledged]
                    self._acknowledged = received
                    self._changed.notify_all()

    @property
    def _total(self) -> int:
        """Bytes that the host has sent."""
        return self._acknowledged + len(self._unacknowledged)


async def _cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, ConnectionError):
        await task


async def refuse(socket: web.WebSocketResponse, why: Close) -> None:
    """Close ``socket`` as the relay does."""
    await socket.close(code=why, message=why.reason.encode())
