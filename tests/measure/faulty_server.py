"""An OpenAI server on loopback that fails as vLLM cannot be made to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Literal

from tests.loopback import serving

#: ``stall``: nothing comes for some seconds in the middle of an answer. ``silent``: 200, and an
#: end without a token. ``truncated``: the connection ends in the middle of an event. ``error``:
#: after some tokens an event that is an error, then ``[DONE]``, as vLLM ends an answer that fails.
#: ``busy``: 429.
Fault = Literal["none", "stall", "silent", "truncated", "error", "busy"]

MODEL = "acme/faulty"
#: Every so many requests one fails.
EVERY = 16
#: Seconds of a stall: above what a benchmark takes for one.
STALL_S = 6.0
_BETWEEN_S = 0.01
_COUNTED = ("vllm:prompt_tokens", "vllm:generation_tokens", "vllm:prompt_tokens_cached")


@dataclass
class FaultyServer:
    """A server of which one request of :data:`EVERY` fails.

    Attributes:
        url: its address.
        fault: how.
    """

    url: str
    fault: Fault = "none"


@contextmanager
def faulty_server() -> Iterator[FaultyServer]:
    """A server that runs while the block does."""
    server = FaultyServer("")
    lock = threading.Lock()
    counts = dict.fromkeys((*_COUNTED, "requests"), 0)

    def count(name: str, by: int = 1) -> int:
        with lock:
            counts[name] += by
            return counts[name]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if self.path == "/metrics":
                text = "".join(
                    f'# TYPE {name} counter\n{name}_total{{engine="0",model_name="{MODEL}"}}'
                    f" {counts[name]}\n"
                    for name in _COUNTED
                )
                self._answer(200, text.encode(), "text/plain")
            elif self.path == "/v1/models":
                models = {"object": "list", "data": [{"id": MODEL, "max_model_len": 4096}]}
                self._answer(200, json.dumps(models).encode())
            else:
                self._answer(200, b'{"version": "0.32.0"}')

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            failing = count("requests") % EVERY == 0
            if failing and server.fault == "busy":
                self._answer(429, b'{"error": {"message": "slow down"}}')
                return
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self._stream(asked, server.fault if failing else "none")

        def _stream(self, asked: dict[str, object], fault: Fault) -> None:
            prompt, tokens = len(str(asked["prompt"]).split()), int(str(asked["max_tokens"]))
            count("vllm:prompt_tokens", prompt)
            half = 0 if fault == "silent" else tokens if fault == "none" else tokens // 2
            self._tokens(half)
            if fault == "truncated":
                self._event(b'data: {"choices": [{"te')
                self.close_connection = True
                return
            if fault == "error":
                self._send({"error": {"message": "EngineCore died", "code": 500}})
            if fault == "stall":
                time.sleep(STALL_S)
                self._tokens(tokens - half)
            if fault in ("none", "stall"):
                usage = {"prompt_tokens": prompt, "completion_tokens": tokens}
                self._send({"choices": [], "usage": usage})
            self._event(b"data: [DONE]\n\n")
            self._event(b"")

        def _tokens(self, tokens: int) -> None:
            for _ in range(tokens):
                time.sleep(_BETWEEN_S)
                count("vllm:generation_tokens")
                self._send({"choices": [{"index": 0, "text": " a", "finish_reason": None}]})

        def _send(self, event: object) -> None:
            self._event(b"data: " + json.dumps(event).encode() + b"\n\n")

        def _event(self, content: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(content), content))
            self.wfile.flush()

        def _answer(self, code: int, body: bytes, kind: str = "application/json") -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with serving(Handler) as server.url:
        yield server
