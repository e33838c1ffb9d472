"""Sending an answer over HTTP: whole, or in the way that a fault demands."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from aiohttp import web

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.routing import Delivery, FileRange, Reply

_COMPRESS_ABOVE = 1024
_LOOK_S = 0.05

MidBody = Callable[[], Awaitable[None]]


async def send(request: web.Request, reply: Reply, mid_body: MidBody) -> web.StreamResponse:
    """Send ``reply`` as its delivery says.

    Args:
        request: what is answered.
        reply: the answer.
        mid_body: awaited in the middle of a body that does not come in one piece.
    """
    with suppress(ConnectionResetError):  # the client has disconnected
        match reply.delivery:
            case Delivery.WHOLE:
                return await _whole(request, reply)
            case Delivery.HALTING | Delivery.CUT:
                return await _halves(request, reply, mid_body)
            case Delivery.SILENT:
                await _silence(request, reply.silent_s)
    reset(request)
    return web.Response(status=reply.status)


def reset(request: web.Request) -> None:
    """Close the connection with a TCP reset: what the client has not read is lost."""
    transport = request.transport
    if transport is None:
        return
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()


async def _whole(request: web.Request, reply: Reply) -> web.StreamResponse:
    body = reply.body
    if body is None:
        return web.Response(status=reply.status, headers=reply.headers)
    if isinstance(body, bytes):
        return web.Response(status=reply.status, body=body, headers=reply.headers)
    if isinstance(body, Path):
        return web.FileResponse(body, status=reply.status, headers=reply.headers)
    if isinstance(body, dict):
        return _json_response(request, body, reply.status, dict(reply.headers))
    response = web.StreamResponse(status=reply.status, headers=reply.headers)
    if isinstance(body, FileRange):
        with body.file:
            await response.prepare(request)
            if body.length:
                await _send_range(request, body)
        await response.write_eof()
        return response
    await response.prepare(request)
    async for chunk in body:
        await response.write(chunk)
    await response.write_eof()
    return response


async def _send_range(request: web.Request, body: FileRange) -> None:
    """Have the kernel send it: weights are as fast as loopback is, and pass through no Python."""
    if request.transport is None:
        raise ConnectionResetError
    try:
        loop = asyncio.get_running_loop()
        await loop.sendfile(request.transport, body.file, body.start, body.length)
    except ConnectionError as error:  # such as a broken pipe
        raise ConnectionResetError from error


def _json_response(
    request: web.Request, body: JsonObject, status: int, headers: dict[str, str]
) -> web.Response:
    payload = _encoded(body)
    response = web.Response(
        status=status,
        body=payload,
        headers={"Content-Type": "application/json; charset=UTF-8", **headers},
    )
    accepts_gzip = "gzip" in request.headers.get("Accept-Encoding", "")
    if len(payload) > _COMPRESS_ABOVE and accepts_gzip:
        response.enable_compression(web.ContentCoding.gzip)
    return response


async def _halves(request: web.Request, reply: Reply, mid_body: MidBody) -> web.StreamResponse:
    payload = await payload_of(reply)
    half = len(payload) // 2
    if reply.delivery is Delivery.CUT and not half:
        # An empty body cannot be cut, so the answer is lost instead.
        await mid_body()
        reset(request)
        return web.Response(status=reply.status)
    headers = {"Content-Type": "application/json; charset=UTF-8", **reply.headers}
    response = web.StreamResponse(
        status=reply.status, headers={**headers, "Content-Length": str(len(payload))}
    )
    await response.prepare(request)
    await response.write(payload[:half])
    await mid_body()
    if reply.delivery is Delivery.CUT:
        # An orderly close: the client sees fewer bytes than Content-Length promised.
        if request.transport is not None:
            request.transport.close()
        return response
    await response.write(payload[half:])
    await response.write_eof()
    return response


async def payload_of(reply: Reply) -> bytes:
    """The whole body of ``reply`` as bytes."""
    body = reply.body
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, dict):
        return _encoded(body)
    if isinstance(body, Path):
        return await asyncio.to_thread(body.read_bytes)
    if isinstance(body, FileRange):
        with body.file:
            body.file.seek(body.start)
            return await asyncio.to_thread(body.file.read, body.length)
    return b"".join([chunk async for chunk in body])


async def _silence(request: web.Request, seconds: float) -> None:
    """Send nothing until the client disconnects, for at most ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        transport = request.transport
        if transport is None or transport.is_closing():
            return
        await asyncio.sleep(_LOOK_S)


def _encoded(body: JsonObject) -> bytes:
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
