"""A server on loopback that answers as vLLM does, and can be made to fail as vLLM cannot."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import requests

from tests.loopback import serving
from tpuflex.measure.server import ServerClient

KEY, MODEL = "sk-canary", "org/model"
BEFORE, AFTER = (
    (Path(__file__).parent / "recorded" / name).read_text("utf-8")
    for name in ("before.txt", "after.txt")
)


def completed(tokens: int = 16, text: str = " Paris.", reason: str | None = "length") -> str:
    choice = {"index": 0, "text": text, "finish_reason": reason}
    return json.dumps({"choices": [choice], "usage": {"completion_tokens": tokens}})


@dataclass
class FakeServer:
    """What it answers.

    Attributes:
        documents: path -> the texts that it answers with, the last one for good; a number is a
            status.
        completion: what a completion is answered with, before which it answers as it did.
        key: what a request must have; empty for none.
        asked: what it was asked, in order.
    """

    documents: dict[str, list[str | int]] = field(
        default_factory=lambda: {
            "/health": [200],
            "/version": ['{"version": "0.32.0"}'],
            "/v1/models": [json.dumps({"data": [{"id": MODEL, "max_model_len": 512}]})],
            "/metrics": [BEFORE, AFTER],
            "/v1/completions": [completed()],
        }
    )
    key: str = KEY
    asked: list[str] = field(default_factory=list)

    def answer(self, path: str, key: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        if self.key and path != "/health" and key != f"Bearer {self.key}":
            return 401, b'{"error": "Unauthorized"}'
        texts = self.documents.get(path, [404])
        text = texts.pop(0) if len(texts) > 1 else texts[0]
        return (text, b"") if isinstance(text, int) else (200, text.encode())

    @contextmanager
    def running(self, address: tuple[str, int] = ("127.0.0.1", 0)) -> Iterator[ServerClient]:
        """It, as it is asked, at ``address``."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, body = fake.answer(self.path, self.headers["Authorization"])
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.do_GET()

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        with serving(Handler, address) as url:
            yield ServerClient(
                f"{url}/v1", "direct", MODEL, KEY, requests.Session(), pause=lambda _seconds: None
            )
