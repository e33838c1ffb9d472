"""Which questions READY asks without the key."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.security.certificates import certificate
from tpuflex.startup.routes import KNOWN, OPEN, Server, documented, questions

DOCUMENT = {
    "paths": {
        "/health": {"get": {}, "summary": "not a method"},
        "/v1/responses/{response_id}/cancel": {"post": {}},
        "/a/{b}/{c}": {"delete": {}, "patch": {}},
    }
}


def test_each_documented_operation_is_asked_with_its_parameters_filled_in() -> None:
    """Methods and paths come from the server's own list; what is no method is left out."""
    assert set(documented(DOCUMENT)) == {
        ("GET", "/health"),
        ("POST", "/v1/responses/1/cancel"),
        ("DELETE", "/a/1/1"),
        ("PATCH", "/a/1/1"),
    }


def test_known_routes_are_asked_though_no_list_names_them() -> None:
    """Routes that are in no document, and OPTIONS of all, are asked as well."""
    asked = set(questions(DOCUMENT))
    for method, paths in KNOWN.items():
        assert {(method, path) for path in paths.split()} <= asked
    assert {("OPTIONS", "/a/1/1"), ("OPTIONS", "/docs"), ("OPTIONS", "/health")} <= asked
    assert ("POST", "/health") in asked
    assert not asked & OPEN


@pytest.mark.parametrize("document", [{}, [], None, {"paths": None}, {"paths": {}}, "text"])
def test_document_without_paths_is_no_list(document: object) -> None:
    """A server that names no route has not been checked by asking none."""
    with pytest.raises(ValueError, match="lists no paths"):
        list(documented(document))


class Answering(BaseHTTPRequestHandler):
    """Answers every question, and keeps what it was shown."""

    shown: list[str]

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer."""
        self.shown.append(self.headers["Authorization"])
        self.send_response(204)
        self.end_headers()


@contextmanager
def serving(directory: Path, served: tuple[str, str]) -> Iterator[tuple[str, list[str]]]:
    """The address of a server with that certificate and key, and what it is shown."""
    pem = directory / "served.pem"
    pem.write_text("".join(served))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    shown: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Answering,), {"shown": shown}))
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}", shown
    finally:
        server.shutdown()
        server.server_close()


def test_the_key_goes_to_the_holder_of_the_certificate_alone(tmp_path: Path) -> None:
    """The host's probes send nothing to a server with another certificate, also where the same
    authority has signed it, which is in the stack's file with the stack's own."""
    authority = certificate(common_name="authority")
    ours, other = certificate(issuer=authority), certificate(issuer=authority)
    file = tmp_path / "certificate.pem"
    file.write_text(ours[0] + authority[0])
    headers = {"Authorization": "Bearer key"}

    with serving(tmp_path, other) as (url, shown):
        with pytest.raises(OSError, match="another certificate"):
            Server(url, str(file)).ask("GET", "/", headers)
        assert shown == []
    with serving(tmp_path, ours) as (url, shown):
        assert Server(url, str(file)).ask("GET", "/", headers)[0] == 204
        assert shown == ["Bearer key"]
