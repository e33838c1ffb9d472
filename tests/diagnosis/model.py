"""A language model's endpoint, as far as it is asked."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Model:
    """What it answers, and what it was sent.

    Attributes:
        says: the text of its completions.
        status: HTTP status of all answers.
        bodies: what was posted.
        keys: the headers that authorize.
        url: its base URL.
    """

    says: str = "Symptom: none."
    status: int = 200
    bodies: list[Any] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    url: str = ""

    def serve(self) -> ThreadingHTTPServer:
        """Serve it on loopback, until it is shut down."""
        model = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                """Nothing: it is a test."""

            def do_GET(self) -> None:
                self._answer({"data": [{"id": "small-model"}, {"id": "other"}]})

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                model.bodies.append(json.loads(self.rfile.read(length)))
                self._answer({"choices": [{"message": {"content": model.says}}]})

            def _answer(self, document: object) -> None:
                model.keys.append(self.headers.get("Authorization", ""))
                content = json.dumps(document).encode()
                self.send_response(model.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}/v1"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server
