"""Fetching an image from its registry: what comes is its digest's, or nothing is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from tests.images import TestImage, small_image
from tests.loopback import overrides
from tpuflex.errors import AccessError, ApiError, NotFoundError, TpuflexError, WeightsError
from tpuflex.gcp.endpoints import Endpoints
from tpuflex.operate.image_layout import fetch_layout
from tpuflex.operate.registry import Registry

IMAGE = small_image()
LARGE = max(IMAGE.blobs, key=lambda name: len(IMAGE.blobs[name]))


@dataclass
class Served:
    """A registry on loopback.

    Attributes:
        image: what it has.
        token: without it, a request is answered with a challenge; empty for none.
        realm: where that says a token is to be had.
        statuses: answers to give first, by a part of the path.
        altered: content to give in place of a blob's.
        cut: how many bytes of a blob to send before the connection breaks, once each.
        asked: every path, with the range and the credentials that were sent.
    """

    image: TestImage = IMAGE
    token: str = ""
    realm: str = "https://auth.docker.io/token"
    statuses: dict[str, list[int]] = field(default_factory=dict)
    altered: dict[str, bytes] = field(default_factory=dict)
    cut: list[int] = field(default_factory=list)
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    url: str = ""


class Handler(BaseHTTPRequestHandler):
    served: Served
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        served, path = self.served, self.path
        asked = self.headers.get("Range", ""), self.headers.get("Authorization", "")
        served.asked.append((path, *asked))
        for part, statuses in served.statuses.items():
            if part in path and statuses:
                error = {"errors": [{"code": "DENIED", "message": "no\x1b[31m"}]}
                return self._answer(statuses.pop(0), json.dumps(error).encode())
        if path.startswith("/elsewhere?"):
            return self._answer(302, b"", {"Location": "https://10.0.0.5/token?x=1"})
        if path.startswith("/token?"):
            return self._answer(200, json.dumps({"token": served.token}).encode())
        if served.token and asked[1] != f"Bearer {served.token}":
            asked_of = f'realm="{served.realm}",service="s",scope="repository:a:pull"'
            return self._answer(401, b"{}", {"WWW-Authenticate": f"Bearer {asked_of}"})
        name = path.rpartition("sha256:")[2]
        content = served.altered.get(name, served.image.blobs.get(name))
        if content is None:
            return self._answer(404, b"{}")
        start = int(asked[0].removeprefix("bytes=").removesuffix("-") or 0)
        if "/blobs/" in path and name == LARGE and served.cut:
            return self._answer(206, content[start:], send=served.cut.pop(0))
        return self._answer(206 if start else 200, content[start:])

    def _answer(
        self,
        status: int,
        body: bytes,
        headers: dict[str, str] | None = None,
        send: int | None = None,
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if send is None else body[:send])
        if send is not None:
            self.close_connection = True


@pytest.fixture
def served() -> Iterator[Served]:
    """A registry that has the image."""
    found = Served()
    handler = type("Handler", (Handler,), {"served": found})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


class LoopbackSession(requests.Session):
    """Sends what is meant for any host to one on loopback, and remembers whom it was for."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.trust_env = False
        self._url = url
        self.hosts: set[str] = set()

    def get(self, url: str | bytes, **how: object) -> requests.Response:
        text = str(url)
        if not text.startswith(self._url):
            host, _, path = text.removeprefix("https://").partition("/")
            self.hosts.add(host)
            text = f"{self._url}/{path}"
        return super().get(text, **how)  # type: ignore[arg-type]


def registry(served: Served, name: str = "vllm/vllm-tpu") -> tuple[Registry, LoopbackSession]:
    """The registry of an image on the internet, which is the one on loopback."""
    session = LoopbackSession(served.url)
    waits: list[float] = []

    def google() -> requests.Session:
        session.headers["Authorization"] = "Bearer the-callers"
        return session

    found = Registry(
        f"{name}@{IMAGE.digest}",
        Endpoints.from_environ({}),
        google,
        lambda: session,
        pause=waits.append,
    )
    return found, session


def fetch(served: Served, directory: Path) -> dict[str, bytes]:
    """The blobs of a fetched layout, by their SHA-256."""
    fetch_layout(registry(served)[0], directory, lambda _done, _total: None)
    return {path.name: path.read_bytes() for path in (directory / "blobs" / "sha256").iterdir()}


def test_all_blobs_come_with_a_token_of_nobody(served: Served, tmp_path: Path) -> None:
    """Docker Hub asks for a token of nobody in particular: it is got where it says, sent with
    every request, and the layout has exactly the image's blobs; progress ends at the total."""
    served.token = "nobodys"
    found, session = registry(served)
    seen: list[tuple[int, int]] = []
    fetch_layout(found, tmp_path, lambda done, total: seen.append((done, total)))

    blobs = {path.name: path.read_bytes() for path in (tmp_path / "blobs" / "sha256").iterdir()}
    assert blobs == IMAGE.blobs
    assert session.hosts == {"registry-1.docker.io", "auth.docker.io"}
    paths = [path for path, _, _ in served.asked]
    assert "/token?service=s&scope=repository%3Aa%3Apull" in paths
    assert paths[0] == f"/v2/vllm/vllm-tpu/manifests/{IMAGE.digest}"
    assert f"/v2/vllm/vllm-tpu/blobs/sha256:{IMAGE.config}" in paths
    assert seen[-1][0] == seen[-1][1] > 0


@pytest.mark.parametrize(
    ("name", "host", "path", "with_token"),
    [
        ("vllm", "registry-1.docker.io", "library/vllm", False),
        ("docker.io/vllm/vllm-tpu:v1", "registry-1.docker.io", "vllm/vllm-tpu", False),
        ("quay.io/a/b", "quay.io", "a/b", False),
        ("mirror.gcr.io/vllm/vllm-tpu", "mirror.gcr.io", "vllm/vllm-tpu", False),
        ("us-docker.pkg.dev/p/r/vllm", "us-docker.pkg.dev", "p/r/vllm", True),
    ],
)
def test_the_callers_credentials_go_to_registries_of_projects_alone(
    served: Served, name: str, host: str, path: str, with_token: bool
) -> None:
    """Each name is asked of its own registry, and only a project's of Google's gets a token."""
    found, session = registry(served, name)
    found.read()
    assert session.hosts == {host}
    assert served.asked[0][0] == f"/v2/{path}/manifests/{IMAGE.digest}"
    assert {sent for _, _, sent in served.asked} == {"Bearer the-callers" if with_token else ""}


def test_a_connection_that_breaks_is_gone_on_with(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole blocks that have come are kept, and asked for no second time."""
    monkeypatch.setattr("tpuflex.operate.registry._BLOCK", 50)
    served.cut = [100, 200]
    assert fetch(served, tmp_path) == IMAGE.blobs
    ranges = [asked for path, asked, _ in served.asked if LARGE in path]
    assert ranges == ["bytes=0-", "bytes=100-", "bytes=300-"]


def test_another_run_goes_on_with_what_is_there(served: Served, tmp_path: Path) -> None:
    """Blobs that are whole are not fetched again, and one under way is gone on with."""
    blobs = tmp_path / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    (blobs / f"{LARGE}.part").write_bytes(IMAGE.blobs[LARGE][:50])
    assert fetch(served, tmp_path) == IMAGE.blobs
    assert [asked for path, asked, _ in served.asked if LARGE in path] == ["bytes=50-"]
    served.asked.clear()
    assert fetch(served, tmp_path) == IMAGE.blobs
    assert [path for path, _, _ in served.asked if LARGE in path] == []


@pytest.mark.parametrize("content", [IMAGE.blobs[LARGE][:-1] + b"x", b"x" * 9_000_000])
def test_a_blob_of_another_content_is_not_kept(
    served: Served, tmp_path: Path, content: bytes
) -> None:
    """Altered and longer content is refused and removed; the next run fetches it anew."""
    served.altered = {LARGE: content}
    with pytest.raises(WeightsError, match="not what its digest says"):
        fetch(served, tmp_path)
    assert not list((tmp_path / "blobs" / "sha256").glob(f"{LARGE}*"))
    served.altered = {}
    assert fetch(served, tmp_path) == IMAGE.blobs


def test_what_has_come_is_kept_where_no_more_comes(served: Served, tmp_path: Path) -> None:
    """Answers without content, which gateways give, are no other content: a bounded number of them
    is asked past, and the next run goes on."""
    served.altered = {LARGE: IMAGE.blobs[LARGE][:50]}
    with pytest.raises(ApiError, match="sends an answer without content") as caught:
        fetch(served, tmp_path)
    assert "goes on where it stopped" in caught.value.hint
    ranges = [asked for path, asked, _ in served.asked if LARGE in path]
    assert ranges == ["bytes=0-", *["bytes=50-"] * 4]
    served.altered = {}
    served.asked.clear()
    assert fetch(served, tmp_path) == IMAGE.blobs
    assert [asked for path, asked, _ in served.asked if LARGE in path] == ["bytes=50-"]


@pytest.mark.parametrize("name", [IMAGE.digest[7:], IMAGE.manifest, IMAGE.config])
def test_a_document_of_another_content_is_refused(
    served: Served, tmp_path: Path, name: str
) -> None:
    """Index, manifest and config are compared with their digests before they are read."""
    served.altered = {name: IMAGE.blobs[name] + b" "}
    with pytest.raises(WeightsError, match="another content than its digest says"):
        fetch(served, tmp_path)


@pytest.mark.parametrize(
    ("status", "kind", "hint"),
    [
        (401, AccessError, "--layout"),
        (403, AccessError, "--layout"),
        (404, NotFoundError, ""),
        (429, ApiError, "in a minute"),
        (500, ApiError, ""),
    ],
)
def test_what_a_registry_refuses_is_told_by_its_kind(
    served: Served, tmp_path: Path, status: int, kind: type[TpuflexError], hint: str
) -> None:
    """Each refusal says who must act, without control characters of the registry's."""
    served.statuses = {"/manifests/": [status]}
    with pytest.raises(kind) as caught:
        fetch(served, tmp_path)
    assert hint in caught.value.hint
    assert "\x1b" not in caught.value.message


def test_a_blob_that_is_limited_is_waited_for(served: Served, tmp_path: Path) -> None:
    """A limit and a failure of the registry's are waited out; a refusal is final."""
    served.statuses = {f"/blobs/sha256:{LARGE}": [429, 503]}
    assert fetch(served, tmp_path) == IMAGE.blobs
    served.statuses = {f"/blobs/sha256:{LARGE}": [403]}
    with pytest.raises(AccessError):
        fetch(served, tmp_path / "other")


def test_a_challenge_that_leads_elsewhere_in_clear_is_not_followed(served: Served) -> None:
    """A token is asked for over TLS where the registry is asked over TLS."""
    served.token, served.realm = "nobodys", f"{served.url}/token"
    with pytest.raises(AccessError):
        registry(served, "quay.io/a/b")[0].read()


def test_a_token_is_not_asked_for_where_its_place_leads(served: Served) -> None:
    """A registry could otherwise have a network asked that it does not reach itself."""
    served.token, served.realm = "nobodys", "https://auth.example/elsewhere?x=1"
    found, session = registry(served, "quay.io/a/b")
    with pytest.raises(AccessError, match=r"quay\.io names auth\.example .* leads elsewhere"):
        found.read()
    assert session.hosts == {"quay.io", "auth.example"}


def test_a_registry_that_is_not_there(tmp_path: Path) -> None:
    """It is named, without a traceback."""
    gone = Served(url="http://127.0.0.1:1")
    with pytest.raises(ApiError, match="cannot be reached"):
        fetch(gone, tmp_path)


def test_a_disk_that_is_too_small(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told before anything large is fetched."""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: type("Usage", (), {"free": 10})())
    with pytest.raises(WeightsError, match="GB are free"):
        fetch(served, tmp_path)
    assert not [path for path, _, _ in served.asked if LARGE in path]


def test_the_embedded_cloud_has_every_registry(served: Served) -> None:
    """In a rehearsal no host on the internet is asked: the embedded cloud's registries are, with
    its own token, and they say that they have no content."""
    session = requests.Session()
    session.trust_env = False
    found = Registry(
        f"vllm/vllm-tpu@{IMAGE.digest}",
        Endpoints.from_environ(overrides(served.url)),
        lambda: session,
        pause=lambda _seconds: None,
    )
    found.read()
    (first, *_) = served.asked
    assert first[0].endswith(
        f"/registry/registry-1.docker.io/v2/vllm/vllm-tpu/manifests/{IMAGE.digest}"
    )
