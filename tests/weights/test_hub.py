"""Models of the Hub: resolved to a commit, fetched, resumed, checked, refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import httpx2
import pytest
from huggingface_hub.utils import _http, get_session, set_client_factory

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.hub_models import MODEL, TOKEN, pauses, put_model, safetensors
from tpuflex.errors import (
    AccessError,
    ApiError,
    InterruptedByUser,
    NotFoundError,
    SettingsError,
    TpuflexError,
    UnauthenticatedError,
    WeightsError,
)
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import HubSource
from tpuflex.weights.hub.client import HubClient, http_client
from tpuflex.weights.hub.snapshot import HubFile, ListedFiles, choose_files

SHARD = "model-00001-of-00002.safetensors"
MAIN = HubSource(MODEL, "")
NEEDS = ServerNeeds()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud whose Hub has a model."""
    with EmbeddedCloud(tmp_path / "emulator", clock=ManualClock()) as running:
        put_model(running.state_dir)
        yield running


def client(cloud: EmbeddedCloud, token: str = "", waited: list[float] | None = None) -> HubClient:
    """A client of that Hub."""
    timing = pauses([] if waited is None else waited)
    return HubClient(f"{cloud.url}/huggingface", lambda: token, timing)


def fetch(client: HubClient, directory: Path, path: str = SHARD) -> Path:
    """Fetch a file of the model, with nobody looking."""
    directory.mkdir(exist_ok=True)
    return client.fetch(client.snapshot(MAIN, NEEDS), path, directory, lambda _: None)


def test_what_serving_needs_is_listed(cloud: EmbeddedCloud) -> None:
    """With size and sum, at the commit that the branch is now; the rest is named."""
    snapshot = client(cloud).snapshot(MAIN, NEEDS)
    assert [file.path for file in snapshot.files] == [
        "config.json",
        SHARD,
        "model-00002-of-00002.safetensors",
        "tokenizer.json",
    ]
    assert snapshot.left_out == ("original/consolidated.pth", "pytorch_model.bin")
    assert snapshot.source == f"hf://{MODEL}@{snapshot.commit}"
    assert client(cloud).snapshot(HubSource(MODEL, snapshot.commit), NEEDS) == snapshot
    more = client(cloud).snapshot(MAIN, ServerNeeds(extra_files=("*.bin",)))
    assert "pytorch_model.bin" in {file.path for file in more.files}


@pytest.mark.parametrize(
    ("source", "token", "error", "text", "hint"),
    [
        (HubSource("acme/nothing", ""), "", NotFoundError, "no model acme/nothing", "private"),
        (HubSource("acme/nothing", ""), TOKEN, NotFoundError, "no model acme/nothing", "name"),
        (HubSource(MODEL, "0" * 40), TOKEN, NotFoundError, "no such revision", "/commits/main"),
        (MAIN, "", AccessError, "is gated, and there is no token", "HF_TOKEN"),
        (MAIN, "hf_other", AccessError, "not give it to the account", "Accept the terms"),
        (MAIN, "hf_\nother", AccessError, "characters that no token has", "secrets.hf_token or"),
        (HubSource("a..b/c", ""), "", SettingsError, "no name of a model", ""),
    ],
)
def test_refusals(
    cloud: EmbeddedCloud,
    source: HubSource,
    token: str,
    error: type[TpuflexError],
    text: str,
    hint: str,
) -> None:
    """Each refusal is said with what to do, and names no token."""
    (cloud.state_dir / "hub" / MODEL / ".gated").write_text(TOKEN)

    with pytest.raises(error) as caught:
        client(cloud, token).snapshot(source, NEEDS)

    assert text in str(caught.value)
    assert hint in str(caught.value.hint)
    assert not token or token not in str(caught.value)


def test_a_token_opens_a_gated_model(
    cloud: EmbeddedCloud, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the token a gated model is fetched; no file on the disk holds it, nothing prints
    it, and no command line names it."""
    (cloud.state_dir / "hub" / MODEL / ".gated").write_text(TOKEN)
    place = fetch(client(cloud, TOKEN), tmp_path / "models")

    assert place == tmp_path / "models" / SHARD
    assert place.read_bytes() == safetensors()
    held = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".gated"]
    assert not [path for path in held if TOKEN.encode() in path.read_bytes()]
    assert "".join(capfd.readouterr()) == ""


def test_what_comes_is_told(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """Each byte once; whoever is told may stop it."""
    hub, came = client(cloud), list[int]()
    hub.fetch(hub.snapshot(MAIN, NEEDS), SHARD, tmp_path, came.append)
    assert sum(came) == len(safetensors())

    def stop(count: int) -> None:
        if count > 0:
            raise InterruptedByUser("Stopped.")

    with pytest.raises(InterruptedByUser):
        hub.fetch(hub.snapshot(MAIN, NEEDS), "model-00002-of-00002.safetensors", tmp_path, stop)
    assert not list(tmp_path.rglob("*.incomplete"))


def answering(*answers: httpx2.Response, waited: list[float] | None = None) -> HubClient:
    """A client of a Hub that gives ``answers`` to the next calls; the last one for ever."""
    queue = list(answers)

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return queue.pop(0) if len(queue) > 1 else queue[0]

    timing = pauses([] if waited is None else waited)
    transport = httpx2.MockTransport(answer)
    return HubClient("https://hub.test", lambda: TOKEN, timing, lambda: http_client(transport))


LIMITED = {"ratelimit": '"api";r=0;t=55'}


@pytest.mark.parametrize(
    ("status", "headers", "waits", "error", "text"),
    [
        (429, {"Retry-After": "7"}, [8.0] * 4, ApiError, "limits how many requests"),
        (429, LIMITED, [56.0] * 4, ApiError, "limits how many requests"),
        (429, {"Retry-After": "86400"}, [], ApiError, "limits how many requests"),
        (503, {}, [2.0, 4.0, 8.0, 16.0], ApiError, "answered with 503"),
        (401, {"X-Error-Message": "Invalid credentials in Authorization header"}, [],
         UnauthenticatedError, "refuses the token: Invalid credentials"),
        (403, {"X-Error-Message": "no \x1b[31mway"}, [], AccessError, "forbids it"),
    ],
)  # fmt: skip
def test_waits_are_bounded(
    status: int,
    headers: dict[str, str],
    waits: list[float],
    error: type[TpuflexError],
    text: str,
) -> None:
    """The Hub is asked again as late as it says, five times at most, and not after five
    minutes; what it says cannot act on a terminal."""
    waited: list[float] = []
    request = httpx2.Request("GET", "https://hub.test/api/models/acme/tiny")
    refusal = httpx2.Response(status, headers=headers, request=request)

    with pytest.raises(error, match=text) as caught:
        answering(refusal, waited=waited).snapshot(MAIN, NEEDS)

    assert waited == waits
    assert TOKEN not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("sha", "source"),
    [("1" * 40, HubSource(MODEL, "2" * 40)), ("../../../elsewhere", MAIN), (None, MAIN)],
)
def test_a_commit_that_was_not_asked_for(sha: str | None, source: HubSource) -> None:
    """Another commit than the pinned one is refused, and so is what is no commit: a directory
    is named after it."""
    request = httpx2.Request("GET", "https://hub.test/api/models/acme/tiny")
    files = [
        {"rfilename": name, "size": 1, "blobId": "0" * 40}
        for name in ("config.json", "x.safetensors")
    ]
    listing = httpx2.Response(
        200, json={"id": MODEL, "sha": sha, "siblings": files}, request=request
    )

    with pytest.raises(WeightsError, match="commit"):
        answering(listing).snapshot(source, NEEDS)


def test_a_hub_that_fails_meanwhile_is_asked_again(
    cloud: EmbeddedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As late as it says; a file that the Hub does not have any more is told, and what cannot
    be reached."""
    monkeypatch.setattr(_http, "time", SimpleNamespace(sleep=lambda _: None))
    waited: list[float] = []
    hub = client(cloud, waited=waited)
    snapshot = hub.snapshot(MAIN, NEEDS)
    limited = cloud.state_dir / "hub" / MODEL / ".limited"

    def unlimited(seconds: float) -> bool:
        waited.append(seconds)
        limited.unlink()
        return False

    hub._timing = replace(hub._timing, pause=unlimited)
    limited.write_text("7")
    hub.fetch(snapshot, SHARD, tmp_path, lambda _: None)
    assert waited == [8.0]
    (cloud.state_dir / "hub" / MODEL / "config.json").write_text("{}")
    with pytest.raises(NotFoundError, match="no such revision"):
        hub.fetch(snapshot, "config.json", tmp_path, lambda _: None)
    gone = HubClient("http://127.0.0.1:1", str, pauses(waited))
    with pytest.raises(ApiError, match=f"{SHARD} cannot be fetched: the Hub cannot be reached"):
        gone.fetch(snapshot, SHARD, tmp_path / "other", lambda _: None)


def test_no_token_crosses_the_network_in_clear() -> None:
    """A mirror without TLS gets no token, and is not asked at all."""
    with pytest.raises(AccessError, match="in clear"):
        HubClient("http://mirror.test", lambda: TOKEN, pauses([])).snapshot(MAIN, NEEDS)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_hub_on_this_machine_is_asked_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """A proxy of the environment does not get the token in clear; what is elsewhere goes
    through it."""
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    HubClient(f"http://{host}:8470/huggingface", lambda: TOKEN, pauses([]))
    session = get_session()
    try:
        way = session._transport_for_url(httpx2.URL(f"http://{host}:8470/x"))
        other = session._transport_for_url(httpx2.URL("http://cdn.test/x"))
    finally:
        set_client_factory(partial(httpx2.Client, follow_redirects=True))
    assert "proxy.test" not in str(vars(way._pool))  # type: ignore[attr-defined]
    assert "proxy.test" in str(vars(other._pool))  # type: ignore[attr-defined]


@pytest.fixture
def flood() -> Iterator[str]:
    """The address of a server whose answers have no end of zeros; compressed if it is asked for a
    model called `gzip`."""

    class Flood(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            compressor = zlib.compressobj(wbits=31) if "gzip" in self.path else None
            self.send_response(200)
            if compressor is not None:
                self.send_header("Content-Encoding", "gzip")
            self.end_headers()
            zeros = b"0" * 2**20
            with suppress(OSError):  # nobody listens any more
                while True:
                    block = zeros if compressor is None else compressor.compress(zeros)
                    self.wfile.write(block)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Flood) as server:
        server.daemon_threads = True
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("name", "text"),
    [("acme/plain", "answers with more than 33554432 bytes"), ("acme/gzip", "compressed .*gzip")],
)
def test_an_answer_without_end(flood: str, name: str, text: str) -> None:
    """No more is read than a listing can have, and nothing is unpacked."""
    with pytest.raises(WeightsError, match=text):
        HubClient(flood, str, pauses([])).snapshot(HubSource(name), NEEDS)


SAFE = HubFile("model.safetensors", 1000, "0" * 64, "0" * 40)
CONFIG = HubFile("config.json", 2, "", "0" * 40)
TOKENIZER = HubFile("tokenizer.json", 2, "", "0" * 40)


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (HubFile("../x.json", 1, "", "0" * 40), "no path in it"),
        (HubFile("/etc/x.json", 1, "", "0" * 40), "no path in it"),
        (HubFile("a\nb.json", 1, "", "0" * 40), "no path in it"),
        (HubFile("x.json", -1, "", "0" * 40), "without a size"),
        (HubFile("x.json", 10**400, "", "0" * 40), "without a size"),
        (HubFile("x.json", 1, "", ""), "without a size"),
    ],
)
def test_a_listing_that_cannot_be(file: HubFile, text: str) -> None:
    """What a server says of its files is checked before a path is made of it."""
    listed = ListedFiles((CONFIG, SAFE, TOKENIZER, file), lambda *_: b"{}")
    with pytest.raises(WeightsError, match=text):
        choose_files("a/b", "0" * 40, listed, NEEDS)
