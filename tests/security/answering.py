"""A server on loopback that gives every request the same answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread


@contextmanager
def server(
    pieces: Iterable[bytes], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """Answer with ``pieces``, for as long as the client reads; yield the URL and the bodies that
    were received."""
    received: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            received.append(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
            self.send_response(status)
            for name, value in (headers or {}).items():
                self.send_header(name, value)
            self.end_headers()
            try:
                for piece in pieces:
                    self.wfile.write(piece)
            except OSError:
                return

        do_POST = do_GET  # noqa: N815 - the name that http.server looks for

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    running = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=running.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{running.server_port}", received
    finally:
        running.shutdown()
        thread.join()
        running.server_close()
