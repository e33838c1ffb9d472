"""A server in the place of vLLM, for tests whose hosts run nothing."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

ANSWER = "The capital of France is Paris."


class _Answers(BaseHTTPRequestHandler):
    """Answers as a server that is well, and knows one sentence."""

    def do_GET(self) -> None:
        self._send(b"{}")

    def do_POST(self) -> None:
        choice = {"index": 0, "finish_reason": "stop", "delta": {"content": ANSWER}}
        document = {"choices": [choice], "usage": {"completion_tokens": 8}}
        self._send(f"data: {json.dumps(document)}\n\ndata: [DONE]\n\n".encode())

    def _send(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(endpoint: str) -> Iterator[None]:
    """A server where the stack's endpoint is."""
    place = urlsplit(endpoint)
    server = ThreadingHTTPServer((str(place.hostname), place.port or 80), _Answers)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
