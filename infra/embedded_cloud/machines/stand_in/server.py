"""An OpenAI-compatible server without a model: what it answers says that it has none.

A startup script finds in it what it asks of vLLM: it wants the weights' directory and a key, takes
ASGI middleware, lists its routes, says a version, and completes text. Options of vLLM that matter
to a model only are accepted, as they say.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import ssl
import sys
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from aiohttp import web

from embedded_cloud.core.peer import is_own_user

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


#: As the vLLM that the embedded cloud serves with elsewhere, so that it is not below any floor.
VERSION = "0.32.0+rehearsal"
ANSWER = "This is a rehearsal on the embedded cloud: no model was run, and there is no answer."
_ROUTES = {
    "/health": "get",
    "/version": "get",
    "/metrics": "get",
    "/openapi.json": "get",
    "/v1/models": "get",
    "/v1/chat/completions": "post",
    "/v1/completions": "post",
}
_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class StandIn:
    """The ASGI application.

    Args:
        model: name under which the model would be served.
        key: what clients, or the middleware in front, have to give.
    """

    def __init__(self, model: str, key: str) -> None:
        self._model = model
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = str(scope["path"])
        if path != "/health" and not self._has_key(scope):
            await _answer(send, 401, {"error": {"message": "Unauthorized", "code": 401}})
        elif _ROUTES.get(path) != str(scope["method"]).lower():
            await _answer(send, 404, {"error": {"message": "Not Found", "code": 404}})
        elif path in ("/v1/chat/completions", "/v1/completions"):
            await self._complete(path, await _body(receive), send)
        else:
            await _answer(send, 200, self._documents()[path])

    def _has_key(self, scope: Scope) -> bool:
        return (b"authorization", b"Bearer " + self._key) in [tuple(p) for p in scope["headers"]]

    def _documents(self) -> Mapping[str, Any]:
        return {
            "/health": {},
            "/version": {"version": VERSION},
            "/metrics": {},
            "/openapi.json": {"paths": {path: {verb: {}} for path, verb in _ROUTES.items()}},
            "/v1/models": {"object": "list", "data": [{"id": self._model, "object": "model"}]},
        }

    async def _complete(self, path: str, body: bytes, send: Send) -> None:
        try:
            request = json.loads(body)
            model, stream = request["model"], bool(request.get("stream"))
        except (ValueError, KeyError, TypeError, AttributeError):
            await _answer(send, 400, {"error": {"message": "no completion request", "code": 400}})
            return
        if model != self._model:
            text = f"The model `{model}` does not exist."
            await _answer(send, 404, {"error": {"message": text, "code": 404}})
            return
        chat = path.startswith("/v1/chat")
        content = {"role": "assistant", "content": ANSWER}
        said = {"message": content} if chat else {"text": ANSWER}
        if stream and chat:
            said = {"delta": content}
        choice = {"index": 0, "finish_reason": "stop", **said}
        document = {"model": model, "choices": [choice], "usage": _USAGE}
        if not stream:
            await _answer(send, 200, document)
            return
        text = f"data: {json.dumps(document)}\n\ndata: [DONE]\n\n"
        await _answer(send, 200, text.encode(), kind=b"text/event-stream")


async def _body(receive: Receive) -> bytes:
    body: bytes = (await receive())["body"]
    return body


async def _answer(
    send: Send, status: int, content: object, *, kind: bytes = b"application/json"
) -> None:
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    start: Message = {
        "type": "http.response.start",
        "status": status,
        "headers": [(b"content-type", kind)],
    }
    await send(start)
    await send({"type": "http.response.body", "body": body})


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve as vLLM's ``api_server`` is started; what is about a model is not looked at."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for name in ("--model", "--served-model-name", "--host", "--port"):
        parser.add_argument(name, required=True)
    for name in ("--ssl-certfile", "--ssl-keyfile"):
        parser.add_argument(name)
    parser.add_argument("--middleware", action="append", default=[])
    options, rest = parser.parse_known_args(arguments)
    if not (Path(options.model) / "config.json").is_file():
        sys.exit(f"OSError: {options.model} has no config.json")
    sys.stdout.write(f"{ANSWER}\nIgnored, for want of a model: {' '.join(rest)}\n")
    sys.stdout.flush()
    application: Application = StandIn(options.served_model_name, os.environ["VLLM_API_KEY"])
    for name in options.middleware:
        module, _, kind = name.rpartition(".")
        application = getattr(importlib.import_module(module), kind)(application)
    context = None
    if options.ssl_certfile:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options.ssl_certfile, options.ssl_keyfile)
    web.run_app(
        served(application, admitted=is_own_user),
        host=options.host,
        port=int(options.port),
        ssl_context=context,
        access_log=None,
    )
