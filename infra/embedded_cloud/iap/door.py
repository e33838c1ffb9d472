"""The door of the emulated IAP: an HTTP proxy on loopback that leads to one server, itself.

gcloud is sent here by ``https_proxy``, so that the very command that goes to Google's relay comes
here. Only the owner's processes get an answer, by the kernel's word, and only `CONNECT` to the
relay: the token that they send within must not reach anybody else.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable

from pulumi_plugin.peer import is_own_connection

#: The relay's name, as gcloud has it (`iap_tunnel_websocket_utils.URL_HOST`).
RELAY = "tunnel.cloudproxy.app"
_TARGET = f"{RELAY}:443".encode()
_LONGEST_HEAD = 8 * 1024
#: Seconds for a request line, and for the handshake of TLS.
_WITHIN_S = 10.0


class Door(asyncio.Protocol):
    """One connection to the door.

    Args:
        server: makes the protocol that serves what comes within TLS.
        context: TLS of the relay.
    """

    def __init__(self, server: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there: is it ours?"""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("the door needs a stream")
        self._transport = transport
        if not is_own_connection(transport.get_extra_info("socket")):
            self._refuse(transport)
            return
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(_WITHIN_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        """A part of the request."""
        if self._transport is None or self._transport.is_closing() or self._task is not None:
            return
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if len(self._head) > _LONGEST_HEAD:
            self._refuse(self._transport)
        elif end:
            method, _, target = head.partition(b"\r\n")[0].partition(b" ")
            if method != b"CONNECT" or target.partition(b" ")[0] != _TARGET or rest:
                self._refuse(self._transport)
                return
            self._task = asyncio.create_task(self._let_in(self._transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone before it was let in."""
        del exc
        if self._timeout is not None:
            self._timeout.cancel()

    async def _let_in(self, transport: asyncio.Transport) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        served = self._server()
        loop = asyncio.get_running_loop()
        try:
            within = await loop.start_tls(
                transport,
                served,
                self._context,
                server_side=True,
                ssl_handshake_timeout=_WITHIN_S,
            )
        except (OSError, ssl.SSLError):
            transport.abort()
            return
        if within is not None:
            served.connection_made(within)

    @staticmethod
    def _refuse(transport: asyncio.Transport) -> None:
        transport.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        transport.close()
