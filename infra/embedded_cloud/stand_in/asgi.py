"""An ASGI application behind aiohttp's server, as far as the guard of a host needs it
(https://asgi.readthedocs.io/en/latest/specs/www.html): requests whole, answers whole, and
WebSockets that are refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import unquote

from aiohttp import web

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


def served(application: Application, *, admitted: Callable[[web.Request], bool]) -> web.Application:
    """``application`` for aiohttp.

    Args:
        application: what answers.
        admitted: whether a request gets an answer at all.
    """

    async def handle(request: web.Request) -> web.StreamResponse:
        if not admitted(request):
            return web.Response(status=403)
        body = await request.read()
        answer: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Message) -> None:
            answer.append(message)

        await application(_scope(request), receive, send)
        return _response(answer)

    server = web.Application()
    server.router.add_route("*", "/{path:.*}", handle)
    return server


def _scope(request: web.Request) -> Scope:
    upgraded = request.headers.get("Upgrade", "").lower() == "websocket"
    raw = request.raw_path.partition("?")[0]
    return {
        "type": "websocket" if upgraded else "http",
        "method": request.method,
        "path": unquote(raw),
        "raw_path": raw.encode(),
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.raw_headers],
    }


def _response(messages: list[Message]) -> web.Response:
    """What was sent, as one answer; 403 for a WebSocket that is closed before it is accepted."""
    if not messages or messages[0]["type"] == "websocket.close":
        return web.Response(status=403)
    headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in messages[1:])
    return web.Response(status=messages[0]["status"], headers=headers, body=body)
