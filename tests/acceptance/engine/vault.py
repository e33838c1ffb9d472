"""The two calls of Vault's transit engine that Pulumi's secrets provider ``hashivault://`` makes,
on loopback (https://developer.hashicorp.com/vault/api-docs/secret/transit)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.loopback import serving

_PREFIX = "vault:v1:"


class _Answers(BaseHTTPRequestHandler):
    def do_PUT(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = (
            {"ciphertext": _PREFIX + asked["plaintext"]}
            if self.path == "/v1/transit/encrypt/states"
            else {"plaintext": asked["ciphertext"].removeprefix(_PREFIX)}
        )
        text = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_POST(self) -> None:
        self.do_PUT()

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@contextmanager
def vault() -> Iterator[dict[str, str]]:
    """The environment in which the engine finds a Vault with the key ``states``, whose encryption
    is none."""
    with serving(_Answers) as url:
        yield {"VAULT_SERVER_URL": url, "VAULT_SERVER_TOKEN": "of-nobody"}
