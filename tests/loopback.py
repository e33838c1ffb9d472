"""The environment that points every API to one address on loopback, and a server there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tpuflex.google.endpoints import API_PATHS, OVERRIDES


def overrides(url: str) -> dict[str, str]:
    """gcloud's override variables of all APIs, as `tpuflex emulator env` prints them."""
    return {variable: f"{url}{API_PATHS.get(name, '')}/" for name, variable in OVERRIDES.items()}


class _Server(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None:
        """Say nothing: a program that was killed reads no answer."""


@contextmanager
def serving(
    handler: type[BaseHTTPRequestHandler], address: tuple[str, int] = ("127.0.0.1", 0)
) -> Iterator[str]:
    """The address of a server on loopback: ``address``, by default with a free port."""
    server = _Server(address, handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01), daemon=True)
    thread.start()
    try:
        yield f"http://{address[0]}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
