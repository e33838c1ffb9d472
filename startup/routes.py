"""Ask a server on every route that it has whether it answers without the key: none may.

Run by the startup script before READY: ``routes.py URL CERTIFICATE``, with the host's key on
standard input; an https URL needs the file with the server's certificate. Prints how many questions
were refused; ends with a message if one was answered, or if the routes cannot be found out.
"""

from __future__ import annotations

import http.client
import json
import re
import secrets
import signal
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

#: Routes that no version need list in its ``openapi.json``, among them those of vLLM's developer
#: mode. Source: ``vllm/entrypoints/**/api_router.py`` and ``serve/instrumentator`` of vLLM 0.32.0
#: and 0.29, and https://docs.vllm.ai/en/latest/usage/security/ (2026-11-22).
KNOWN = {
    "GET": (
        "/docs /docs/oauth2-redirect /redoc /openapi.json /metrics /metrics/ /load /version /ping "
        "/kv_event_sources /server_info /is_sleeping /is_paused /get_world_size /weight_info "
        "/tokenizer_info /fault_tolerance/status /static/ / /v1/models /tpuflex/requests"
    ),
    "POST": (
        "/invocations /ping /health /generative_scoring /tokenize /detokenize /pooling /classify "
        "/score /rerank /scale_elastic_ep /is_scaling_elastic_ep /collective_rpc /sleep /wake_up "
        "/release_kv_cache_memory /reset_prefix_cache /reset_mm_cache /reset_encoder_cache /pause "
        "/resume /abort_requests /start_profile /stop_profile /init_weight_transfer_engine "
        "/update_weights /weight_checker /inference/v1/generate /v1/load_lora_adapter "
        "/v1/unload_lora_adapter /v1/chat/completions"
    ),
}
WEBSOCKETS = ("/v1/realtime",)
OPEN = frozenset({("GET", "/health"), ("HEAD", "/health")})

#: Bounds on what a server may make this program do.
SECONDS, QUESTIONS, DOCUMENT_BYTES = 120.0, 4000, 16 * 1024 * 1024
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"})
_UPGRADE = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dHB1ZmxleC10cHVmbGV4IQ==",
}


class _PinnedConnection(http.client.HTTPSConnection):
    """A connection to the one server that shows a certificate; any other is sent nothing."""

    def __init__(self, host: str, port: int | None, seconds: float, certificate: str) -> None:
        context = ssl.create_default_context(cafile=certificate)
        # It names what clients call the server.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        super().__init__(host, port, timeout=seconds, context=context)
        # The file may go on with authorities, which have signed other certificates, too.
        pem = Path(certificate).read_text(encoding="ascii", errors="replace")
        first, end, _ = pem.partition("-----END CERTIFICATE-----")
        self._certificate = ssl.PEM_cert_to_DER_cert(first + end)

    def connect(self) -> None:
        """Connect.

        Raises:
            OSError: there is no connection, or the server shows another certificate.
        """
        super().connect()
        if self.sock.getpeercert(binary_form=True) != self._certificate:
            self.close()
            raise OSError("the server shows another certificate than the stack's")


class Server:
    """One server, asked over one connection as long as it keeps it open.

    Args:
        url: its address.
        certificate: file with the certificate that it shows, the first one; empty without TLS.
        seconds: how long it may be silent.
    """

    def __init__(self, url: str, certificate: str = "", seconds: float = 20) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        if parts.scheme == "https":
            self._connection: http.client.HTTPConnection = _PinnedConnection(
                host, parts.port, seconds, certificate
            )
        else:
            self._connection = http.client.HTTPConnection(host, parts.port, timeout=seconds)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()

    def ask(
        self, method: str, path: str, headers: dict[str, str], content: bytes | None = None
    ) -> tuple[int, bytes]:
        """Status and body of one request.

        Raises:
            OSError, http.client.HTTPException: there was no answer, or it came too late.
        """
        try:
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            # The server had closed the connection after its last answer.
            self._connection.close()
            self._connection.request(method, path, content, headers)
            response = self._connection.getresponse()
        body = _body(response)
        if response.status < 200 or not response.isclosed():
            # An accepted upgrade, or a body that is too long: the connection is of no more use.
            self._connection.close()
        return response.status, body


def _body(response: http.client.HTTPResponse) -> bytes:
    """The first :data:`DOCUMENT_BYTES` of an answer, by what is there: a server may announce a
    chunk of -1 bytes, of which a plain read takes all that ever comes."""
    pieces, left = [], DOCUMENT_BYTES
    while left > 0 and (piece := response.read1(min(left, 65_536))):
        pieces.append(piece)
        left -= len(piece)
    if response.length == 0:
        response.close()
    return b"".join(pieces)


def documented(document: object) -> Iterator[tuple[str, str]]:
    """Method and path of every operation in an OpenAPI document, its parameters filled in."""
    paths = document.get("paths") if isinstance(document, dict) else None
    if not isinstance(paths, dict) or not paths:
        raise ValueError("openapi.json lists no paths")
    for path, operations in paths.items():
        for method in operations:
            if method.upper() in METHODS:
                yield method.upper(), re.sub(r"\{[^}]*\}", "1", path)


def questions(document: object) -> list[tuple[str, str]]:
    """Every question to ask without a key: all known routes, and each path by OPTIONS."""
    routes = set(documented(document))
    routes |= {(method, path) for method, paths in KNOWN.items() for path in paths.split()}
    routes |= {("OPTIONS", path) for _, path in routes}
    return sorted(routes - OPEN)


def open_routes(server: Server, document: object) -> tuple[int, list[str]]:
    """How many questions were asked, and which were answered other than with 401."""
    strangers: tuple[dict[str, str], ...] = (
        {},
        {"Authorization": f"Bearer {secrets.token_urlsafe(32)}"},
    )
    none: dict[str, str] = {}
    asked = [(method, path, 401, none) for method, path in questions(document)]
    # A server that cannot refuse a WebSocket with a status of choice refuses it with 403.
    asked += [("GET", path, 403, _UPGRADE) for path in WEBSOCKETS]
    if len(asked) > QUESTIONS:
        raise ValueError(f"the server has more than {QUESTIONS} routes")
    found = []
    for method, path, refusal, extra in asked:
        for headers in strangers:
            status, _ = server.ask(method, path, {**headers, **extra})
            if status not in (401, refusal):
                found.append(f"{method} {path} ({status})")
                break
    return len(asked) * len(strangers), found


def _too_late(*_: object) -> NoReturn:
    raise TimeoutError(f"not done after {SECONDS:.0f} s")


def main() -> int:
    """See above."""
    # The connection's own limit begins anew with every byte.
    signal.signal(signal.SIGALRM, _too_late)
    signal.alarm(int(SECONDS))
    server = Server(sys.argv[1], sys.argv[2])
    key = sys.stdin.readline().strip()
    try:
        status, text = server.ask("GET", "/openapi.json", {"Authorization": f"Bearer {key}"})
        if status != 200:
            raise ValueError(f"it answers {status} for openapi.json")
        count, found = open_routes(server, json.loads(text))
    except Exception as error:  # whatever a server has http.client raise
        sys.stderr.write(f"the routes of the server cannot be checked: {error}\n")
        return 1
    if found:
        more = f" and {len(found) - 5} more" if len(found) > 5 else ""
        sys.stderr.write(f"the server answers without the key: {', '.join(found[:5])}{more}\n")
        return 1
    sys.stdout.write(f"{count} questions without the key were refused\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
