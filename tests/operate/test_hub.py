"""Models of the Hub: resolved to a commit, fetched, resumed, checked, refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import httpx2
import pytest
from huggingface_hub.utils import get_session, set_client_factory

from embedded_cloud.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.hub_models import MODEL, TOKEN, pauses, put_model, safetensors
from tpuflex.errors import (
    AccessError,
    ApiError,
    NotFoundError,
    SettingsError,
    TpuflexError,
    UnauthenticatedError,
    WeightsError,
)
from tpuflex.gcp.weights_files import Progress
from tpuflex.operate.fetched_directory import source_of
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.fetch import HubModels
from tpuflex.operate.hub.snapshot import HubFile, HubSource, Snapshot, choose_files

SHARD = "model-00001-of-00002.safetensors"
MAIN = HubSource(MODEL, "")


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


def fetch(
    models: Path, hub: HubClient, source: HubSource = MAIN, said: list[str] | None = None
) -> Path:
    """Fetch ``source``, with nobody looking."""
    lines = [] if said is None else said
    return HubModels(models, lambda: hub).directory(source, lines.append, unseen)


def unseen() -> AbstractContextManager[Progress]:
    """A transfer that nobody looks at."""
    return nullcontext(lambda _done, _total: None)


def test_a_model_is_fetched_once(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: what serving needs is fetched with the right content, the rest is named, the commit of
    a branch is said, and the pinned commit then needs no Hub."""
    said: list[str] = []
    directory = fetch(tmp_path / "models", client(cloud), said=said)
    snapshot = client(cloud).snapshot(MAIN)

    names = {path.relative_to(directory).as_posix() for path in directory.rglob("*")}
    assert names == {
        ".tpuflex-source",
        "config.json",
        "tokenizer.json",
        SHARD,
        "model-00002-of-00002.safetensors",
    }
    assert (directory / SHARD).read_bytes() == safetensors()
    assert source_of(directory) == f"hf://{MODEL}@{snapshot.commit}"
    assert f"is commit {snapshot.commit}" in said[0]
    assert "original/consolidated.pth, pytorch_model.bin" in said[1]

    def no_hub() -> HubClient:
        raise AssertionError("the Hub was asked")

    pinned = HubSource(MODEL, snapshot.commit)
    models = HubModels(tmp_path / "models", no_hub)
    models.check(pinned)
    assert models.directory(pinned, said.append, unseen) == directory


def test_other_files_are_another_directory(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: a stack that allows further files does not get a directory that lacks them."""
    commit = client(cloud).snapshot(MAIN).commit
    first = fetch(tmp_path / "models", client(cloud))
    models = HubModels(tmp_path / "models", lambda: client(cloud), ("*.bin",))
    second = models.directory(HubSource(MODEL, commit), lambda _line: None, unseen)
    assert first != second
    assert (second / "pytorch_model.bin").read_bytes() == b"pickle"


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
    tmp_path: Path,
    source: HubSource,
    token: str,
    error: type[TpuflexError],
    text: str,
    hint: str,
) -> None:
    """M11: each refusal is said with what to do, before anything is made, and names no token."""
    (cloud.state_dir / "hub" / MODEL / ".gated").write_text(TOKEN)

    with pytest.raises(error) as caught:
        fetch(tmp_path / "models", client(cloud, token), source)

    assert text in str(caught.value)
    assert hint in caught.value.hint
    assert not (tmp_path / "models").exists()
    assert not token or token not in str(caught.value)


def test_a_token_opens_a_gated_model(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: with the token a gated model is fetched, and no file on the disk holds the token."""
    (cloud.state_dir / "hub" / MODEL / ".gated").write_text(TOKEN)
    fetch(tmp_path / "models", client(cloud, TOKEN))

    held = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != ".gated"]
    assert not [path for path in held if TOKEN.encode() in path.read_bytes()]


class Broken(HubClient):
    """A line that breaks after each block, ``breaks`` times; notes where it went on."""

    def __init__(self, cloud: EmbeddedCloud, breaks: int, alter: bool = False) -> None:
        super().__init__(f"{cloud.url}/huggingface", str, pauses([]))
        self.starts: list[int] = []
        self.breaks = breaks
        self.alter = alter

    @contextmanager
    def blocks(self, snapshot: Snapshot, file: HubFile, start: int) -> Iterator[Iterator[bytes]]:
        if file.path != SHARD:
            with super().blocks(snapshot, file, start) as content:
                yield content
            return
        self.starts.append(start)
        with super().blocks(snapshot, file, start) as content:
            whole = b"".join(content)
        if self.alter:
            whole = whole[:-1] + b"?"
        if len(self.starts) <= self.breaks:
            yield self._torn(whole[: len(whole) // 2])
        else:
            yield iter([whole])

    def _torn(self, block: bytes) -> Iterator[bytes]:
        yield block
        raise httpx2.ReadError("connection reset")


def test_a_broken_line_goes_on_where_it_stopped(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: what has arrived is not asked for again, however often the line breaks."""
    broken = Broken(cloud, breaks=8)
    directory = fetch(tmp_path / "models", broken)

    assert (directory / SHARD).read_bytes() == safetensors()
    assert len(broken.starts) == 9
    assert broken.starts == sorted(set(broken.starts))


def test_a_killed_run_goes_on_where_it_stopped(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: a run that was killed leaves what arrived; the next asks for the rest only."""
    commit = client(cloud).snapshot(MAIN).commit
    partial = tmp_path / "models" / f"hub-acme-tiny-{commit}.partial"
    partial.mkdir(parents=True)
    (tmp_path / "models").chmod(0o700)
    (partial / f"{SHARD}.part").write_bytes(safetensors()[:1_000_000])
    going_on = Broken(cloud, breaks=0)

    directory = fetch(tmp_path / "models", going_on)

    assert going_on.starts == [1_000_000]
    assert (directory / SHARD).read_bytes() == safetensors()


def test_an_altered_file_is_refused(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """M11: what does not have the Hub's own sum gets no name, and is fetched anew the next time."""
    with pytest.raises(WeightsError, match="is not what the Hub lists"):
        fetch(tmp_path / "models", Broken(cloud, breaks=0, alter=True))
    assert not list((tmp_path / "models").rglob(f"{SHARD}*"))

    directory = fetch(tmp_path / "models", client(cloud))
    assert (directory / SHARD).read_bytes() == safetensors()


class Empty(Broken):
    """A Hub whose gateway answers requests for the rest of a shard without any of it."""

    @contextmanager
    def blocks(self, snapshot: Snapshot, file: HubFile, start: int) -> Iterator[Iterator[bytes]]:
        with super().blocks(snapshot, file, start) as content:
            yield iter(()) if file.path == SHARD and start else content


def test_what_has_come_is_kept_where_the_hub_sends_no_more(
    cloud: EmbeddedCloud, tmp_path: Path
) -> None:
    """An answer without content is no other content: the Hub is asked again as often as for any
    failure, and another run goes on where this one stopped."""
    empty = Empty(cloud, breaks=1)
    with pytest.raises(
        ApiError, match=f"{SHARD} cannot be fetched: the Hub sends an answer without"
    ):
        fetch(tmp_path / "models", empty)
    assert len(empty.starts) == 5
    going_on = Broken(cloud, breaks=0)
    directory = fetch(tmp_path / "models", going_on)
    assert going_on.starts == [len(safetensors()) // 2]
    assert (directory / SHARD).read_bytes() == safetensors()


@pytest.fixture
def answers() -> Iterator[list[httpx2.Response]]:
    """What the Hub answers to the next calls, in order; the last one for ever."""
    queue: list[httpx2.Response] = []

    def answer(_request: httpx2.Request) -> httpx2.Response:
        return queue.pop(0) if len(queue) > 1 else queue[0]

    set_client_factory(lambda: httpx2.Client(transport=httpx2.MockTransport(answer)))
    yield queue
    set_client_factory(partial(httpx2.Client, follow_redirects=True))


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
    answers: list[httpx2.Response],
    status: int,
    headers: dict[str, str],
    waits: list[float],
    error: type[TpuflexError],
    text: str,
) -> None:
    """M11: the Hub is asked again as late as it says, five times at most, and not after five
    minutes; what it says cannot act on a terminal."""
    waited: list[float] = []
    request = httpx2.Request("GET", "https://hub.test/api/models/acme/tiny")
    answers.append(httpx2.Response(status, headers=headers, request=request))

    with pytest.raises(error, match=text) as caught:
        HubClient("https://hub.test", lambda: TOKEN, pauses(waited)).snapshot(MAIN)

    assert waited == waits
    assert TOKEN not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("sha", "source"),
    [("1" * 40, HubSource(MODEL, "2" * 40)), ("../../../elsewhere", MAIN), (None, MAIN)],
)
def test_a_commit_that_was_not_asked_for(
    answers: list[httpx2.Response], sha: str | None, source: HubSource
) -> None:
    """M11: another commit than the pinned one is refused, and so is what is no commit: a directory
    is named after it."""
    request = httpx2.Request("GET", "https://hub.test/api/models/acme/tiny")
    files = [
        {"rfilename": name, "size": 1, "blobId": "0" * 40}
        for name in ("config.json", "x.safetensors")
    ]
    answers.append(
        httpx2.Response(200, json={"id": MODEL, "sha": sha, "siblings": files}, request=request)
    )

    with pytest.raises(WeightsError, match="commit"):
        HubClient("https://hub.test", str, pauses([])).snapshot(source)


def test_no_token_crosses_the_network_in_clear() -> None:
    """M11: a mirror without TLS gets no token, and is not asked at all."""
    with pytest.raises(AccessError, match="in clear"):
        HubClient("http://mirror.test", lambda: TOKEN, pauses([])).snapshot(MAIN)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_a_hub_on_this_machine_is_asked_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """M11: a proxy of the environment does not get the token in clear; what is elsewhere goes
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


SAFE = HubFile("model.safetensors", 1, "0" * 64, "0" * 40)
CONFIG = HubFile("config.json", 1, "", "0" * 40)


@pytest.mark.parametrize(
    ("files", "text"),
    [
        ((CONFIG,), r"no \*\.safetensors"),
        ((SAFE,), "no config.json"),
        ((CONFIG, SAFE, HubFile("../x.json", 1, "", "0" * 40)), "no path in it"),
        ((CONFIG, SAFE, HubFile("/etc/x.json", 1, "", "0" * 40)), "no path in it"),
        ((CONFIG, SAFE, HubFile("a\nb.json", 1, "", "0" * 40)), "no path in it"),
        ((CONFIG, SAFE, HubFile("x.json", -1, "", "0" * 40)), "without a size"),
        ((CONFIG, SAFE, HubFile("x.json", 10**400, "", "0" * 40)), "without a size"),
        ((CONFIG, SAFE, HubFile("x.json", 1, "", "")), "without a size"),
    ],
)
def test_a_listing_that_cannot_be(files: tuple[HubFile, ...], text: str) -> None:
    """M11: what a server says of its files is checked before a path is made of it."""
    with pytest.raises(WeightsError, match=text):
        choose_files("a/b", "0" * 40, files)
