"""The two ends of ``gateway.py``: a server that streams as vLLM does, and clients that count.

Both speak just so much HTTP as they need, so that on two cores most of the time is the proxy's
between them. They are on one machine and have one clock: the server writes into its answers when it
got the request and when it sent each token, so that what a proxy adds is known of each token, and
what the server itself takes falls out.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import uvloop

#: What a request says of the answer that it wants, in its prompt, which nothing on its way changes.
_WANTED = re.compile(rb"answer with (\d+) tokens, one in (\d+) ms")
_SENT = re.compile(rb'"content": ?"(\d+) (\d+)"')
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_STREAMED = re.compile(rb'"stream": ?true')
_END = b"0\r\n\r\n"
MODEL = "model-there"
#: Bytes of a prompt.
_PROMPT = 2000


def _event(document: Mapping[str, object]) -> bytes:
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\n\n"


def _chunk(delta: Mapping[str, object], finish: str | None = None) -> bytes:
    """An event as vLLM writes it."""
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    return _event(
        {
            "id": "chatcmpl-0123456789abcdef0123456789abcdef",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": MODEL,
            "choices": [{**choice, "token_ids": None}],
        }
    )


def _framed(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_HEAD = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_ROLE = _framed(_chunk({"role": "assistant", "content": ""}))
_TOKEN = _chunk({"content": "%d %d"}).replace(b'"%d %d"', b'"%d %019d"')
_USAGE = _event(
    {
        "id": "chatcmpl-0123456789abcdef0123456789abcdef",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": MODEL,
        "choices": [],
        "usage": {"prompt_tokens": 400, "total_tokens": 432, "completion_tokens": 32},
    }
)
_LAST = _framed(_chunk({}, "stop")) + _framed(_USAGE) + _framed(b"data: [DONE]\n\n")
_WHOLE = json.dumps(
    {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "created": 1790000000,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "text": "one",
                "message": {"role": "assistant", "content": "one"},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 400, "total_tokens": 401, "completion_tokens": 1},
    }
).encode()
_MODELS = json.dumps(
    {
        "object": "list",
        "data": [{"id": MODEL, "object": "model", "created": 0, "max_model_len": 32768}],
    }
).encode()
_METRICS = b"vllm:num_requests_running 1.0\nvllm:num_requests_waiting 0.0\n"


#: Tokens that the server sends in a millisecond. vLLM's API server is Python, too: with 8 sequences
#: on a CPU it took 0.3 ms and more for each.
_AT_ONCE = 8


class _Steps:
    """An engine: in each step all sequences get a token, which are sent one after the other."""

    def __init__(self, seconds: float) -> None:
        self.sequences: set[_Served] = set()
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._loop.call_later(seconds, self._step)

    def _step(self) -> None:
        self._loop.call_later(self._seconds, self._step)
        self._send(tuple(self.sequences))

    def _send(self, sequences: tuple[_Served, ...]) -> None:
        for each in sequences[:_AT_ONCE]:
            each.token()
        if rest := sequences[_AT_ONCE:]:
            self._loop.call_later(0.001, self._send, rest)


class _Served(asyncio.Protocol):
    """A connection of the server."""

    def __init__(self, engines: dict[int, _Steps]) -> None:
        self._engines = engines
        self._engine: _Steps | None = None
        self._got = bytearray()
        self._received = self._left = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._done()

    def data_received(self, data: bytes) -> None:
        received = time.monotonic_ns()
        self._got += data
        head = self._got.find(b"\r\n\r\n")
        if head < 0:
            return
        found = _LENGTH.search(self._got, 0, head)
        end = head + 4 + (int(found[1]) if found else 0)
        if len(self._got) < end:
            return
        request = bytes(self._got[:end])
        del self._got[:end]
        self._answer(request, received)

    def _answer(self, request: bytes, received: int) -> None:
        wanted = _WANTED.search(request)
        if wanted is None or not _STREAMED.search(request):
            path = request.split(b" ", 2)[1]
            body = _MODELS if path == b"/v1/models" else _WHOLE
            self._plain(_METRICS if path == b"/metrics" else body)
            return
        self._received, self._left = received, int(wanted[1])
        step = int(wanted[2])
        if step == 0:
            tokens = b"".join(self._next() for _ in range(self._left))
            self._transport.write(_HEAD + _ROLE + tokens + _LAST + _END)
            return
        self._transport.write(_HEAD + _ROLE)
        self._engine = self._engines.get(step) or _Steps(step / 1000)
        self._engines[step] = self._engine
        self._engine.sequences.add(self)

    def _plain(self, body: bytes) -> None:
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        self._transport.write(head % len(body) + body)

    def _next(self) -> bytes:
        return _framed(_TOKEN % (self._received, time.monotonic_ns()))

    def token(self) -> None:
        if self._engine is None:  # its client has left
            return
        self._left -= 1
        if self._left:
            self._transport.write(self._next())
        else:
            self._done()
            self._transport.write(self._next() + _LAST + _END)

    def _done(self) -> None:
        if self._engine is not None:
            self._engine.sequences.discard(self)
            self._engine = None


def serve(port: int) -> None:
    """Be the server, until the process is ended."""

    async def run() -> None:
        engines: dict[int, _Steps] = {}
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Served(engines), "127.0.0.1", port, backlog=1024)
        await server.serve_forever()

    uvloop.run(run())


@dataclass
class Traffic:
    """What clients saw.

    Attributes:
        requests: how many were answered.
        tokens: how many tokens came.
        seconds: how long it took.
        first: nanoseconds that each first token, with its request, was on the way.
        failures: what else came instead of an answer.
    """

    requests: int = 0
    tokens: int = 0
    seconds: float = 0.0
    first: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


class _Client(asyncio.Protocol):
    """One client, which asks again and again over one connection."""

    def __init__(self, request: bytes, traffic: Traffic, ends: float, pause: float) -> None:
        self._request, self._traffic, self._ends, self._pause = request, traffic, ends, pause
        self._loop = asyncio.get_running_loop()
        self.done = self._loop.create_future()
        self._rest = b""
        self._first = True
        self._asked = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._later()

    def _later(self) -> None:
        if time.monotonic() >= self._ends:
            self._transport.close()
        elif self._pause:
            # Clients that keep in step would all ask at once.
            self._loop.call_later(random.uniform(0, 2 * self._pause), self._ask)  # noqa: S311
        else:
            self._ask()

    def _ask(self) -> None:
        self._first = True
        self._asked = time.monotonic_ns()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        data = self._rest + data
        at = 0
        for found in _SENT.finditer(data):
            at = found.end()
            self._traffic.tokens += 1
            if self._first:
                self._first = False
                received, sent = int(found[1]), int(found[2])
                self._traffic.first.append(received - self._asked + now - sent)
        self._rest = data[max(at, len(data) - 512) :]
        if data.endswith(_END) or data.endswith(b"}"):
            if b"[DONE]" in data:
                self._traffic.requests += 1
            else:
                self._traffic.failures.append(data[-500:].decode(errors="replace"))
            self._rest = b""
            self._later()

    def connection_lost(self, exc: Exception | None) -> None:
        if time.monotonic() < self._ends:
            self._traffic.failures.append(f"the connection was closed: {exc}")
        self.done.set_result(None)


def ask(
    port: int, key: str, *, clients: int, seconds: float, tokens: int, step_ms: int, pause: float
) -> Traffic:
    """Have so many clients ask the server at ``port``.

    Args:
        port: of a proxy, or of the server itself.
        key: what clients say.
        clients: how many there are.
        seconds: for how long they begin requests.
        tokens: of each answer.
        step_ms: milliseconds between tokens; 0: the answer comes at once.
        pause: mean seconds between an answer and the client's next request.
    """
    text = f"answer with {tokens} tokens, one in {step_ms} ms. ".ljust(_PROMPT, "x")
    document = {
        "model": "served",
        "messages": [{"role": "user", "content": text}],
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    body = json.dumps(document).encode()
    request = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        b"Authorization: Bearer %b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    ) % (key.encode(), len(body)) + body

    async def run() -> Traffic:
        traffic = Traffic()
        loop = asyncio.get_running_loop()
        began = time.monotonic()
        ends = began + seconds
        opened = []
        for _ in range(clients):
            _, client = await loop.create_connection(
                lambda: _Client(request, traffic, ends, pause), "127.0.0.1", port
            )
            opened.append(client.done)
        await asyncio.wait(opened, timeout=seconds + 30)
        if not all(each.done() for each in opened):
            traffic.failures.append("an answer did not end")
        traffic.seconds = time.monotonic() - began
        return traffic

    return uvloop.run(run())
