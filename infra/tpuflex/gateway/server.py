"""The gateway's HTTP server: who asks for what, and the answer to it."""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import math
import os
import resource
import ssl
import sys
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiohttp import web
from aiohttp.http import HttpProcessingError

from tpuflex.errors import AccessError, NotFoundError, TpuflexError
from tpuflex.gateway.door import (
    COMPLETIONS,
    RejectedError,
    bearer_key,
    check_framing,
    check_path,
    read_ask,
    request_id,
    unavailable,
    unknown_key,
)
from tpuflex.gateway.handed_stream import STALLED_S
from tpuflex.gateway.outcome import Reason

if TYPE_CHECKING:
    from tpuflex.gateway.clients import Client, Clients
    from tpuflex.gateway.fleet import Fleet
    from tpuflex.gateway.relay import Relay
    from tpuflex.settings.gateway import GatewaySettings

#: Seconds for a request's body, and for the head of a request on a connection that is open.
_BODY_S = 30.0
_IDLE_S = 75.0
#: Seconds to read on after an answer: many clients look at it only once their body is sent.
_LINGER_S = 2.0
#: Bytes of an answer that an empty transport takes at once.
_TAKEN_AT_ONCE = 16 * 1024
#: Seconds that requests in flight have to end when the gateway stops; and that the clients of those
#: that are cut off then have to read their error.
DRAIN_S = 30.0
_LAST_WORDS_S = 1.0
#: Seconds between looks at what waits and what streams.
_TICK_S = 0.5
#: Most seconds for which a client's library is left to wait and ask again by itself.
_WORTH_A_WAIT_S = 120
#: Connections that wait to be accepted.
_BACKLOG = 1024

#: Descriptors for all but clients and their requests: idle connections to upstreams, files.
_OTHER_DESCRIPTORS = 128
#: Most connections of clients, however many descriptors there may be: each takes some 10 KiB.
_MOST_CONNECTIONS = 16_384


_Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Gateway:
    """Answers requests.

    Args:
        settings: what a request may be.
        fleet: the upstreams.
        clients: who may ask.
        relay: answers completions.
        operator_key: the key for /metrics and /tpuflex/gateway.
        metrics: the text of /metrics.
        status: the document of /tpuflex/gateway.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        fleet: Fleet,
        clients: Clients,
        relay: Relay,
        *,
        operator_key: str,
        metrics: Callable[[], bytes],
        status: Callable[[], Mapping[str, object]],
    ) -> None:
        self._settings, self._fleet, self._clients = settings, fleet, clients
        self._relay = relay
        self._operator_key = operator_key.encode()
        self._metrics, self._status = metrics, status

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request."""
        identifier = request_id(request.headers.get("x-request-id"))
        try:
            check_framing(request.method, request.version, request.headers.get("Transfer-Encoding"))
            check_path(request.method, path := request.raw_path)
            if path in COMPLETIONS:
                return await self._complete(request, path, identifier)
            answer = self._get(request, path)
        except RejectedError as rejected:
            answer = _rejection(rejected)
            if rejected.reason in (Reason.BAD_FRAMING, Reason.STOPPING):
                answer.force_close()
        answer.headers["x-request-id"] = identifier
        return answer

    async def _complete(
        self, request: web.BaseRequest, path: str, identifier: str
    ) -> web.StreamResponse:
        began, client = time.monotonic(), None
        try:
            client = self._client(request)
            ask = read_ask(path, await self._body(request))
            if ask.model not in self._models(client):
                raise RejectedError(
                    404, f"There is no model {ask.model!r} for this key.", Reason.NO_MODEL
                )
        except RejectedError as rejected:
            self._relay.rejected(rejected, identifier, client, began)
            raise
        return await self._relay.complete(request, client, ask, identifier)

    def _get(self, request: web.BaseRequest, path: str) -> web.Response:
        if path == "/health":
            serves = any(each.serves for each in self._fleet.upstreams())
            return web.Response(status=200 if serves else 503)
        if path == "/v1/models":
            models = self._models(self._client(request))
            return _json(
                {
                    "object": "list",
                    "data": [
                        {"id": each, "object": "model", "created": 0, "owned_by": "tpuflex"}
                        for each in models
                    ],
                }
            )
        if not hmac.compare_digest(_key(request), self._operator_key):
            raise unknown_key()
        if path == "/metrics":
            return web.Response(
                body=self._metrics(),
                headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"},
            )
        return _json(self._status())

    def _client(self, request: web.BaseRequest) -> Client:
        client = self._clients.find(_key(request))
        if client is None:
            raise unknown_key()
        return client

    def _models(self, client: Client) -> list[str]:
        """The models that a client may ask for."""
        models = self._fleet.models()
        return [each for each in models if client.models is None or each in client.models]

    async def _body(self, request: web.BaseRequest) -> bytes:
        most = self._settings.requests.body_bytes
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise RejectedError(415, "The body is compressed: send it as it is.", Reason.COMPRESSED)
        if (request.content_length or 0) > most:
            raise _too_long(most)
        if request.headers.get("Expect", "").lower() == "100-continue":
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        content = request.content
        if content.is_eof() and content.total_bytes <= most:
            return content.read_nowait()
        try:
            async with asyncio.timeout(_BODY_S):
                body = bytearray()
                while data := await content.readany():
                    body += data
                    if len(body) > most:
                        raise _too_long(most)
                return bytes(body)
        except TimeoutError as error:
            raise RejectedError(
                408, "The body has not come in time.", Reason.BODY_TOO_SLOW
            ) from error
        except (web.RequestPayloadError, HttpProcessingError) as error:
            raise RejectedError(400, "The body cannot be read.", Reason.INVALID_REQUEST) from error


def _too_long(most: int) -> RejectedError:
    return RejectedError(
        413, f"The body is longer than it may be: {most:,} bytes.", Reason.BODY_TOO_LONG
    )


def _key(request: web.BaseRequest) -> bytes:
    return bearer_key(request.headers.getall("Authorization", ()))


def _json(document: Mapping[str, object]) -> web.Response:
    return web.Response(
        body=json.dumps(document).encode(), headers={"Content-Type": "application/json"}
    )


def _rejection(rejected: RejectedError) -> web.Response:
    headers = {"Content-Type": "application/json", "x-tpuflex-reason": rejected.reason}
    if rejected.retry_after is not None:
        headers["Retry-After"] = str(max(math.ceil(rejected.retry_after), 1))
    if rejected.status == 429 and (rejected.retry_after or math.inf) > _WORTH_A_WAIT_S:
        # OpenAI's libraries would wait for hours, or ask four times in vain.
        headers["x-should-retry"] = "false"
    if rejected.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return web.Response(status=rejected.status, body=rejected.body, headers=headers)


def _no_room() -> bytes:
    """The answer to a connection too many, before anything of a request was read."""
    said = unavailable("The gateway has as many connections as it may have.", Reason.FULL)
    return (
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\nRetry-After: 2\r\nx-tpuflex-reason: %b\r\n"
        b"Connection: close\r\n\r\n%b"
    ) % (len(said.body), said.reason.encode(), said.body)


_NO_ROOM = _no_room()


def _most_connections() -> int:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return _MOST_CONNECTIONS
    # A client's, and its request's at an upstream.
    return max(1, min(_MOST_CONNECTIONS, (limit - _OTHER_DESCRIPTORS) // 2))


class _Connection(web.RequestHandler):
    """A connection that says in OpenAI's form what is wrong, and never repeats what it received: a
    line that cannot be parsed may have a key in it."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        del message
        if status == 400:
            rejected = RejectedError(
                400, "This is no HTTP, or its head is too long.", Reason.BAD_FRAMING
            )
        else:
            # aiohttp makes a 504 of a TimeoutError that nothing has caught, and keeps it back.
            self.log_exception("A request has failed", exc_info=exc or sys.exc_info()[1])
            rejected = RejectedError(
                500, "The gateway has failed.", Reason.FAILED, kind="server_error"
            )
        if request.writer.output_size > 0:
            raise ConnectionError
        answer = _rejection(rejected)
        answer.headers["x-request-id"] = request_id(None)
        answer.force_close()
        return answer

    def log_exception(self, *args: Any, **kw: Any) -> None:
        error: BaseException | None = kw.get("exc_info")
        # Without its message, which may quote what a client sent.
        where = "" if error is None else "".join(traceback.format_tb(error.__traceback__))
        self.logger.error("%s: %s\n%s", args[0], type(error).__name__, where.rstrip())

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        transport = request.transport
        empty = transport is not None and not transport.get_write_buffer_size()
        if empty and (resp.content_length or 0) < _TAKEN_AT_ONCE:
            return await super().finish_response(request, resp, start_time)
        try:
            async with asyncio.timeout(STALLED_S):
                return await super().finish_response(request, resp, start_time)
        except TimeoutError:
            if request.transport is not None:
                # close() would wait until the rest of the answer is taken.
                request.transport.abort()
            return resp, True


class _Server(web.Server):
    """A server with a bound on its connections: without one, strangers could take all descriptors,
    and leave none for upstreams. For one too many, the oldest without a request is closed, and a
    stranger's never has one; where all have requests, the new one is refused."""

    def __init__(self, answer: _Answer, most: int, **how: Any) -> None:
        super().__init__(answer, **how)
        self._most = most

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        super().connection_made(handler, transport)
        if len(self._connections) > self._most:
            for each in self._connections:
                if each is handler:
                    transport.write(_NO_ROOM)
                elif each.transport is None or each._current_request is not None:
                    continue
                each.force_close()
                break

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


@asynccontextmanager
async def serving(
    gateway: Gateway,
    relay: Relay,
    host: str,
    port: int,
    *,
    tls: ssl.SSLContext | None = None,
    drain: float = DRAIN_S,
    most: int | None = None,
) -> AsyncIterator[int]:
    """Answer requests as long as the block runs; then those that are in flight have ``drain``
    seconds to end, less if the task is cancelled, and the rest ends with an error.

    Args:
        gateway: answers.
        relay: gets its regular :meth:`Relay.tick`.
        host: address to listen on.
        port: port to listen on; 0 is any free one.
        tls: certificate and key; None for none.
        drain: seconds.
        most: connections of clients; by default as many as there are descriptors for.

    Yields:
        the port.

    Raises:
        TpuflexError: it cannot listen there.
    """
    server = _Server(
        gateway.answer,
        _most_connections() if most is None else most,
        handler_cancellation=True,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=_IDLE_S,
        lingering_time=_LINGER_S,
    )
    runner = web.ServerRunner(server, shutdown_timeout=_LAST_WORDS_S)
    await runner.setup()
    site = web.TCPSite(runner, host, port, ssl_context=tls, backlog=_BACKLOG)
    ticking = asyncio.create_task(_tick(relay))
    try:
        try:
            await site.start()
        except OSError as error:
            raise _cannot_listen(host, port, error) from error
        yield runner.addresses[0][1]
        await site.stop()
        server.pre_shutdown()
        await relay.drain(drain)
    finally:
        try:
            relay.cut()
            await runner.cleanup()
        finally:
            ticking.cancel()


def _cannot_listen(host: str, port: int, error: OSError) -> TpuflexError:
    # asyncio puts many words around what the system says.
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno == errno.EADDRNOTAVAIL:
        return NotFoundError(
            f"This machine has no address {host}.", hint="Write one of its own for host."
        )
    if error.errno in (errno.EACCES, errno.EPERM):
        return AccessError(
            f"Port {port} of {host} cannot be used: {why}.", hint="Write one from 1024 for port."
        )
    return TpuflexError(
        f"Port {port} of {host} cannot be used: {why}.",
        hint="Write another one for port, or 0 for any free one.",
    )


async def _tick(relay: Relay) -> None:
    while True:
        await asyncio.sleep(_TICK_S)
        relay.tick()
