"""The guard in front of the model server: without a key it answers ``/health`` and nothing else.

vLLM's own check covers the paths below ``/v1``, ``/v2``, ``/inference`` and ``/cohere``; the other
routes answer anybody, ``/invocations`` with the model's text
(https://docs.vllm.ai/en/latest/usage/security/#api-key-authentication-limitations). This ASGI
middleware, given to vLLM with ``--middleware``, denies by default instead: it knows no route but
the open one, so a route that a later version adds is closed, too.

It holds the SHA-256 digests of the keys, never a key. vLLM's own check stays on behind it, with
a key that the entry point makes at each start and the guard puts in place of the client's: were
the guard not there, vLLM would refuse the clients' keys.

While a file ``closed`` lies beside this one, no request is admitted but what is in flight ends
whole: the host is drained (docs/serving.md). vLLM cannot do this itself: told to end, it answers
500.

The host's startup script writes this file, and ``keys.json`` beside it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

#: What anybody may ask: it says whether the server lives, and no more.
OPEN = frozenset({("GET", "/health"), ("HEAD", "/health")})
#: What a metrics key may ask, beside the open routes.
METRICS = ("GET", "/metrics")
#: What the guard itself answers a full key: how many requests are in flight, and whether more are
#: admitted.
REQUESTS = ("GET", "/tpuflex/requests")
#: Lies beside this file while nothing is admitted.
CLOSED = "closed"
#: When a client may ask again, in seconds: a drain that is called off, and a successor whose
#: address the client reads, are a matter of seconds.
RETRY_AFTER = 10
#: A request's line and headers may have about so many bytes: as many as uvicorn allows with h11.
HEADER_BYTES = 65_536


@dataclass(frozen=True)
class Refusal:
    """An answer without the application.

    Attributes:
        status: of HTTP.
        kind: of the error, as OpenAI's clients read it.
        message: for people.
        header: the one that belongs to the status.
        close_code: of a WebSocket whose server cannot answer it with a status
            (https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1).
    """

    status: int
    kind: str
    message: str
    header: tuple[bytes, bytes]
    close_code: int


NO_KEY = Refusal(
    *(401, "Unauthorized", "Give a valid API key: Authorization: Bearer KEY"),
    header=(b"www-authenticate", b"Bearer"),
    close_code=1008,
)
DRAINING = Refusal(
    *(503, "ServiceUnavailable", "This host is being drained and takes no new requests"),
    header=(b"retry-after", str(RETRY_AFTER).encode()),
    close_code=1013,
)


class GuardError(Exception):
    """The guard cannot be set up; the server must not start."""


@dataclass(frozen=True)
class Keys:
    """SHA-256 digests of the keys that open the server.

    Attributes:
        full: of the keys that may ask everything.
        metrics: of the keys that may read the metrics, and nothing else.
    """

    full: tuple[bytes, ...]
    metrics: tuple[bytes, ...] = ()

    @classmethod
    def load(cls, file: Path) -> Keys:
        """The digests in ``file``: a JSON object of lists in hex, ``full`` and ``metrics``.

        Raises:
            GuardError: the file cannot be read, or holds no full key.
        """
        try:
            document = json.loads(file.read_text(encoding="utf-8"))
            full, metrics = (
                tuple(bytes.fromhex(digest) for digest in document[name])
                for name in ("full", "metrics")
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise GuardError(f"{file} cannot be used: {error!r}") from error
        size = hashlib.sha256().digest_size
        if not full or any(len(digest) != size for digest in full + metrics):
            raise GuardError(f"{file} holds no key, or something that is no SHA-256 digest")
        return cls(full, metrics)

    def allows(self, key: bytes, route: tuple[str, str] | None) -> bool:
        """Whether ``key`` may ask ``route``; every digest is compared, in constant time."""
        digest = hashlib.sha256(key).digest()
        full = sum(hmac.compare_digest(digest, one) for one in self.full)
        metrics = sum(hmac.compare_digest(digest, one) for one in self.metrics)
        return full > 0 or (metrics > 0 and route == METRICS)


class Guard:
    """ASGI middleware that refuses every request and WebSocket without a key.

    Args:
        app: the application behind the guard.
        keys: the clients' keys; by default those of ``keys.json`` beside this file.
        inner_key: the key that ``app`` wants; by default vLLM's own, from the environment.
        closed: nothing is admitted while this file is there; by default ``closed`` beside this one.

    Raises:
        GuardError: there are no keys.
    """

    def __init__(
        self,
        app: Application,
        keys: Keys | None = None,
        inner_key: str | None = None,
        closed: Path | None = None,
    ) -> None:
        self._app = app
        self._closed = closed if closed is not None else Path(__file__).with_name(CLOSED)
        self._in_flight = 0
        self._counted: dict[object, Callable[[], None]] = {}
        limit_headers()
        self._keys = keys if keys is not None else default_keys()
        inner = inner_key if inner_key is not None else os.environ.get("VLLM_API_KEY", "")
        if not inner:
            raise GuardError("VLLM_API_KEY is not set: the server's own check would be off")
        self._inner = b"Bearer " + inner.encode("ascii")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass; answer the rest, unread: with 401, or with 503 while closed."""
        kind = scope["type"]
        if kind == "lifespan":
            await self._app(scope, receive, send)
            return
        if kind not in ("http", "websocket"):
            raise GuardError(f"a connection of an unknown type: {kind}")
        self._end_previous(scope)
        route = plain_route(scope)
        if route in OPEN:
            await self._app(scope, receive, send)
            return
        key = bearer(scope["headers"])
        if key is None or not self._keys.allows(key, route):
            await refuse(scope, send, NO_KEY)
            return
        if route == REQUESTS:
            await self._tell(send)
            return
        if route != METRICS and self._is_closed():
            await refuse(scope, send, DRAINING)
            return
        headers = [pair for pair in scope["headers"] if pair[0].lower() != b"authorization"]
        headers.append((b"authorization", self._inner))
        scope = {**scope, "headers": headers}
        if route == METRICS:
            await self._app(scope, receive, send)
        else:
            await self._count(scope, receive, send)

    def _is_closed(self) -> bool:
        return self._closed.exists()

    def _end_previous(self, scope: Scope) -> None:
        """End the count of the request before on the same connection, which has one at a time:
        where it has become a WebSocket meanwhile, uvicorn tells nobody that it has ended."""
        if (end := self._counted.get(connection_of(scope))) is not None:
            end()

    async def _count(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on. It is in flight until its last byte is sent or its client is gone:
        what the application does after that, nobody waits for."""
        connection, open_until_now = connection_of(scope), True
        self._in_flight += 1

        def end() -> None:
            nonlocal open_until_now
            self._in_flight -= open_until_now
            open_until_now = False
            if self._counted.get(connection) is end:
                del self._counted[connection]

        if connection is not None:
            self._counted[connection] = end

        async def receive_counted() -> Message:
            message = await receive()
            if message["type"] in ("http.disconnect", "websocket.disconnect"):
                end()
            return message

        async def send_counted(message: Message) -> None:
            is_last = message["type"] == "http.response.body" and not message.get("more_body")
            if is_last and message.get("body"):
                # A server takes a body however large; the next message waits until it is sent.
                await send({**message, "more_body": True})
                message = {"type": message["type"], "body": b""}
            await send(message)
            if is_last:
                end()

        try:
            await self._app(scope, receive_counted, send_counted)
        finally:
            end()

    async def _tell(self, send: Send) -> None:
        """Answer how many requests are in flight, and whether more are admitted."""
        said = {"in_flight": self._in_flight, "closed": self._is_closed()}
        await answer(send, 200, json.dumps(said).encode())


def connection_of(scope: Scope) -> object:
    """What tells a client's connection from all others that are open; None where nothing does, as
    behind a proxy that is trusted (port 0)."""
    client = scope.get("client")
    return tuple(client) if client and client[1] else None


def limit_headers() -> None:
    """Have uvicorn close a connection of which it has read :data:`HEADER_BYTES` without coming to
    the end of the headers, or to a piece of a body. httptools, with which it reads where that is
    installed, has no limit, and takes longer for each byte more: one client without a key would
    keep all others waiting, and the host's watch."""
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as Protocol
    except ImportError:
        return
    if hasattr(Protocol, "unparsed_bytes"):
        return
    Protocol.unparsed_bytes = 0

    def bounded(method: Callable[..., None]) -> Callable[..., None]:
        def data_received(self: Any, data: bytes) -> None:
            if self.unparsed_bytes > HEADER_BYTES:
                self.transport.close()
                return
            self.unparsed_bytes += len(data)
            method(self, data)

        return data_received

    def parsed(method: Callable[..., None]) -> Callable[..., None]:
        def callback(self: Any, *given: bytes) -> None:
            self.unparsed_bytes = 0
            method(self, *given)

        return callback

    Protocol.data_received = bounded(Protocol.data_received)
    for name in ("on_headers_complete", "on_body", "on_message_complete"):
        setattr(Protocol, name, parsed(getattr(Protocol, name)))


def default_keys() -> Keys:
    """The keys of ``keys.json`` beside this file.

    Raises:
        GuardError: it cannot be used.
    """
    return Keys.load(Path(__file__).with_name("keys.json"))


def new_inner_key() -> str:
    """A key between guard and server for one start, once the clients' keys are known to load.

    Raises:
        GuardError: the clients' keys cannot be used.
    """
    default_keys()
    return secrets.token_urlsafe(32)


def plain_route(scope: Scope) -> tuple[str, str] | None:
    """Method and path of an HTTP request whose path means the same however it is read.

    None for a WebSocket, below a root path, and if the path that the router sees is not letter
    for letter what the client sent: an encoded or otherwise disguised path opens nothing.
    """
    path: str = scope["path"]
    if scope["type"] != "http" or scope.get("root_path"):
        return None
    if scope.get("raw_path") != path.encode("utf-8", "replace"):
        return None
    return scope["method"], path


def bearer(headers: Headers) -> bytes | None:
    """The key of the one ``Authorization: Bearer`` header; None without it, or with several."""
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, key = values[0].partition(b" ")
    return key.strip(b" ") if scheme.lower() == b"bearer" else None


async def refuse(scope: Scope, send: Send, why: Refusal) -> None:
    """Answer ``why``; a WebSocket whose server cannot is closed before it is accepted (403)."""
    prefix = ""
    if scope["type"] == "websocket":
        if "websocket.http.response" not in (scope.get("extensions") or {}):
            await send({"type": "websocket.close", "code": why.close_code})
            return
        prefix = "websocket."
    error = {"message": why.message, "type": why.kind, "param": None, "code": why.status}
    await answer(send, why.status, json.dumps({"error": error}).encode(), why.header, prefix=prefix)


async def answer(
    send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes], prefix: str = ""
) -> None:
    """Send a whole answer of JSON."""
    length = (b"content-length", str(len(body)).encode())
    fields = [(b"content-type", b"application/json"), length, *headers]
    await send({"type": f"{prefix}http.response.start", "status": status, "headers": fields})
    await send({"type": f"{prefix}http.response.body", "body": body})
