"""A cloud that answers from a script, for answers that the embedded cloud never gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler

from embedded_cloud.core.json_types import JsonObject
from tests.loopback import serving


def error(status: int, reason: str, message: str = "no") -> tuple[int, JsonObject]:
    """A Google-shaped error answer."""
    return status, {"error": {"code": status, "message": message, "errors": [{"reason": reason}]}}


@dataclass
class Script:
    """A cloud that answers from a script and remembers what it was asked.

    Attributes:
        answers: answers by method and path, in order; the last one is repeated.
        asked: method, path and body of every request.
    """

    answers: dict[str, list[tuple[int, JsonObject]]] = field(default_factory=dict)
    asked: list[tuple[str, JsonObject]] = field(default_factory=list)
    url: str = ""

    def on(self, request: str, *answers: JsonObject | tuple[int, JsonObject]) -> None:
        """Answer ``request`` ("GET /path") with ``answers``."""
        self.answers[request] = [one if isinstance(one, tuple) else (200, one) for one in answers]

    def answer(self, request: str, body: JsonObject) -> tuple[int, JsonObject]:
        """The next answer."""
        self.asked.append((request, body))
        answers = self.answers.get(request, [error(404, "notFound", "not found")])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def count(self, request: str) -> int:
        """How often ``request`` was made."""
        return sum(1 for made, _ in self.asked if made == request)


@contextmanager
def scripted() -> Iterator[Script]:
    """A scripted cloud on loopback, while the block runs."""
    script = Script()

    class Handler(BaseHTTPRequestHandler):
        def handle_any(self) -> None:
            payload = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            body = json.loads(payload) if payload else {}
            status, answer = script.answer(f"{self.command} {path}", body)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(answer).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Nothing on standard error."""

    for verb in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        setattr(Handler, f"do_{verb}", Handler.handle_any)
    with serving(Handler) as script.url:
        yield script
