"""Google's token endpoint on loopback, and access to the embedded cloud with its tokens.

With both, the provider's own session and Google's credentials library do in a test what they do
against Google: fetch a token, send it, and fetch another when the API answers 401.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from requests.adapters import BaseAdapter

from reliability.direct import DirectCloud, DirectSession
from tpuflex.gcp.default_credentials import DefaultCredentials
from tpuflex.gcp.session import AuthorizedSession


class TokenServer:
    """Issues tokens that are valid for ``lifetime`` seconds of the cloud's time.

    Attributes:
        issued: token -> when it was issued.
        down: whether it answers 503.
    """

    def __init__(self, now: Callable[[], float], lifetime: float) -> None:
        self.issued: dict[str, float] = {}
        self.down = False
        self.now = now
        self.lifetime = lifetime

    def good(self, token: str) -> bool:
        """Whether the API accepts ``token`` now."""
        return self.now() - self.issued.get(token, float("-inf")) < self.lifetime

    @contextmanager
    def serving(self) -> Iterator[str]:
        """Serve while the block runs; yield the address of the token endpoint."""
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                body: dict[str, Any] = {"error": "unavailable"}
                if not tokens.down:
                    token = f"ya29.test-{len(tokens.issued)}"
                    tokens.issued[token] = tokens.now()
                    body = {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}
                payload = json.dumps(body).encode()
                self.send_response(503 if tokens.down else 200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:
                del format, args

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}/token"
            server.shutdown()


def write_credentials(file: Path, token_uri: str) -> None:
    """A service account's key file, as GOOGLE_APPLICATION_CREDENTIALS names it."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    document = {
        "type": "service_account",
        "project_id": "cloud-project",
        "private_key_id": "1",
        "private_key": pem.decode(),
        "client_email": "deployer@cloud-project.iam.gserviceaccount.com",
        "client_id": "1",
        "token_uri": token_uri,
    }
    file.write_text(json.dumps(document))


def session(direct: DirectCloud, tokens: TokenServer) -> AuthorizedSession:
    """The session that the provider uses with Google, its requests redirected to ``direct``."""
    made = AuthorizedSession(DefaultCredentials(os.environ), embedded=False)
    made.mount("https://tpu.googleapis.com", _Adapter(direct, tokens))
    return made


class _Adapter(BaseAdapter):
    """Passes requests on, also those with expired tokens: the cloud rejects them."""

    def __init__(self, direct: DirectCloud, tokens: TokenServer) -> None:
        super().__init__()
        self._session = DirectSession(direct)
        self._tokens = tokens

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        """Send one request."""
        del stream, verify, cert, proxies
        token = request.headers["Authorization"].removeprefix("Bearer ")
        body = request.body.encode() if isinstance(request.body, str) else request.body
        url, _, query = str(request.url).partition("?")
        return self._session.request(
            str(request.method),
            url,
            params=dict(pair.split("=", 1) for pair in query.split("&") if pair),
            data=body or b"",
            headers=request.headers,
            timeout=timeout,
            allow_redirects=False,
            token=None if self._tokens.good(token) else token,
        )

    def close(self) -> None:
        """Do nothing: no connection is kept open."""
