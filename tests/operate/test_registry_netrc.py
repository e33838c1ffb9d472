"""A registry says whom to ask for a token: nobody's password of another place goes there."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
import requests
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from tests.images import small_image
from tpuflex.gcp.endpoints import Endpoints
from tpuflex.operate.registry import NobodysSession, Registry

IMAGE = small_image()


class Net(BaseAdapter):
    """evil.example, a registry whose challenge names a Git server; and that, which gives a token of
    the caller's to whoever shows a password."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []

    def close(self) -> None:
        """Nothing is open."""

    def send(self, request: requests.PreparedRequest, **_how: object) -> requests.Response:  # type: ignore[override]
        shown, url = request.headers.get("Authorization", ""), str(request.url)
        self.seen.append((url, shown))
        body, status, headers = b"{}", 200, {}
        if url.startswith("https://git.example/"):
            body = json.dumps({"token": "yours" if shown else "nobody's"}).encode()
        elif url.startswith("https://store.example/"):
            body = IMAGE.blobs[url.rpartition("sha256:")[2]]
        elif not shown.startswith("Bearer "):
            status = 401
            headers["WWW-Authenticate"] = (
                'Bearer realm="https://git.example/jwt/auth",service="registry",scope="a:push"'
            )
        else:
            status, headers["Location"] = 302, f"https://store.example/{url.rpartition('/')[2]}"
        answer = requests.Response()
        answer.request, answer.url, answer.status_code = request, url, status
        answer.headers.update(headers)
        answer.raw = HTTPResponse(io.BytesIO(body), preload_content=False)
        return answer


def test_what_netrc_has_is_sent_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to the registry, nor to the place that its challenge or a redirect names."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine git.example login me password secret\ndefault login me password x\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    net = Net()

    def session() -> requests.Session:
        made = NobodysSession()
        made.mount("https://", net)
        return made

    image = f"evil.example/vllm/vllm-tpu@{IMAGE.digest}"
    registry = Registry(
        image, Endpoints.from_environ({}), requests.Session, session, pause=lambda _seconds: None
    )
    registry.read()

    assert {shown for _, shown in net.seen} == {"", "Bearer nobody's"}
    assert {shown for url, shown in net.seen if "store.example" in url} == {""}
