"""As much of Pulumi Cloud's API as the engine asks to read one stack's configuration, on loopback
(the engine's ``pkg/backend/httpstate/client/client.go``)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler

from tests.loopback import serving

ACCOUNT = "acme"
_OPEN = f"/api/esc/environments/{ACCOUNT}/yaml/open"


@contextmanager
def pulumi_cloud(stack: str, config: Mapping[str, object]) -> Iterator[dict[str, str]]:
    """The environment that logs the engine in to an account with one stack.

    Args:
        stack: ``PROJECT/STACK``, the stack that the account knows.
        config: what every environment that is opened sets as configuration; a text that begins
            with ``secret:`` is a secret.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            self._answer(
                {
                    "/api/user": {
                        "githubLogin": ACCOUNT,
                        "organizations": [{"githubLogin": ACCOUNT}],
                    },
                    f"/api/stacks/{ACCOUNT}/{stack}": {
                        "orgName": ACCOUNT,
                        "projectName": stack.partition("/")[0],
                        "stackName": stack.partition("/")[2],
                        "tags": {},
                        "version": 0,
                    },
                    f"{_OPEN}/session": {"properties": {"pulumiConfig": _value(config)}},
                }.get(path)
            )

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.partition("?")[0]
            self._answer(
                {
                    _OPEN: {"id": "session"},
                    f"/api/stacks/{ACCOUNT}/{stack}/encrypt": {"ciphertext": "c2VhbGVk"},
                }.get(path)
            )

        def _answer(self, body: object) -> None:
            text = json.dumps(body or {"code": 404, "message": "not found"}).encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    with serving(Answers) as url:
        yield {"PULUMI_BACKEND_URL": url, "PULUMI_ACCESS_TOKEN": "pul-of-nobody"}


def _value(value: object) -> dict[str, object]:
    """``value`` as an opened environment has it
    (https://pkg.go.dev/github.com/pulumi/esc#Value)."""
    trace = {"trace": {"def": {"environment": "prod", "begin": {}, "end": {}}}}
    if isinstance(value, Mapping):
        return {"value": {key: _value(item) for key, item in value.items()}, **trace}
    if isinstance(value, list):
        return {"value": [_value(item) for item in value], **trace}
    if isinstance(value, str) and value.startswith("secret:"):
        return {"value": value.removeprefix("secret:"), "secret": True, **trace}
    return {"value": value, **trace}
