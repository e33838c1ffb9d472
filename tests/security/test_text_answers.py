"""What a hostile server or host can do to the command line that asks it: nothing but be refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.cli.typing import NOON
from tpuflex.cli import main
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import ApiError
from tpuflex.operate.ask import Question, ask
from tpuflex.operate.host import host_report


@contextmanager
def server(
    status: int, headers: dict[str, str], body: bytes = b""
) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers everything alike; yields its URL and the bodies that it was sent."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            del format, args

    with HTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.server_port}", received
        listening.shutdown()
        thread.join()


def asked(url: str) -> None:
    ask(
        Question(f"{url}/v1", "m", "a secret question"), "key", show=lambda _: None, now=lambda: 0.0
    )


def test_a_question_follows_no_redirect() -> None:
    """S10: Whom the question goes to is not for the server to say, and it may be told in clear."""
    with (
        server(200, {}) as (elsewhere, received),
        server(307, {"Location": elsewhere}) as (url, _),
        pytest.raises(ApiError, match="answered 307"),
    ):
        asked(url)
    assert received == []


@pytest.mark.parametrize("location", ["http://[::1", "http://\u2100\x1bc\x9d0;PWNED\x9c/"])
def test_a_redirect_to_nowhere(location: str) -> None:
    """S10: A location that no URL can be is an answer like any other, and its text stays inside."""
    with (
        server(307, {"Location": location.encode().decode("latin-1")}) as (url, _),
        pytest.raises(ApiError, match="answered 307") as caught,
    ):
        asked(url)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize("tokens", [10**4000, -1, 10**12])
def test_tokens_that_nobody_can_have_counted(tokens: int) -> None:
    """S17: A count beyond any context is no completion, and ends in no traceback."""
    event = {
        "choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}],
        "usage": {"completion_tokens": "TOKENS"},
    }
    body = f"data: {json.dumps(event)}\n\ndata: [DONE]\n\n".replace('"TOKENS"', "9" * 4001)
    if tokens < 10**4000:
        body = body.replace("9" * 4001, str(tokens))
    with server(200, {}, body.encode()) as (url, _), pytest.raises(ApiError, match="no chat"):
        asked(url)


@pytest.mark.parametrize("timeline", ["[" * 100_000, '{"a":' + "1" * 5000 + "}", '{"a":1e999}'])
def test_a_timeline_that_cannot_be_read(timeline: str) -> None:
    """S17: A host's timeline of any shape is left out, and `status` goes on."""
    report = host_report({"phase": "READY", "timeline": timeline})

    assert report is not None
    assert report.timeline == {}


def test_what_nobody_thought_of(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """S10: An error that is a bug is told without a traceback, and what it quotes is harmless."""

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("\x1b]0;PWNED\x07\nmore")

    monkeypatch.setattr(main.tpuflex, "main", fail)

    assert main.run(["status"], Invocation(environ={}, now=lambda: NOON)) == 1

    shown = capsys.readouterr().err
    assert "bug in tpuflex: RuntimeError" in shown
    assert "\x1b" not in shown
    assert "Traceback" not in shown
