"""Asking a server for its metrics."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import requests

from tpuflex.errors import AccessError, ApiError
from tpuflex.operate.metrics import ask_metrics


@contextmanager
def server(status: int, body: bytes) -> Iterator[str]:
    """A server with one answer to whoever has the key; its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            allowed = self.headers["Authorization"] == "Bearer key" and self.path == "/metrics"
            self.send_response(status if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}/v1"
    finally:
        running.shutdown()
        running.server_close()
        thread.join()


def test_the_answer_is_read_with_the_key() -> None:
    """The metrics are beside ``/v1``, not below it."""
    with server(200, b"up 1\n") as url:
        assert ask_metrics(url, "key", requests.Session()) == "up 1\n"


@pytest.mark.parametrize(
    ("key", "status", "error", "text"),
    [
        ("other", 200, AccessError, "the endpoint refused the API key"),
        ("key", 500, ApiError, "/metrics answered 500"),
        ("key", 302, ApiError, "/metrics answered 302"),
    ],
)
def test_refusals(key: str, status: int, error: type[Exception], text: str) -> None:
    """What is no answer is an error, never an idle server."""
    with server(status, b"") as url, pytest.raises(error, match=text):
        ask_metrics(url, key, requests.Session())


def test_an_answer_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is root on the host answers: it is not read for ever."""
    monkeypatch.setattr("tpuflex.operate.metrics._LONGEST", 10)
    with server(200, b"x" * 11) as url, pytest.raises(ApiError, match="does not end"):
        ask_metrics(url, "key", requests.Session())


def test_nobody_answers() -> None:
    """No connection is said so."""
    with server(200, b"") as url:
        pass
    with pytest.raises(ApiError, match="/metrics does not answer"):
        ask_metrics(url, "key", requests.Session())
