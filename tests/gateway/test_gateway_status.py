"""What a gateway says of itself, and how it is asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from tests.gateway.test_counters import GOOD, REFUSED, Parts, upstream
from tests.security.certificates import certificate
from tpuflex.errors import AccessError, ApiError, ConflictError, ServerDownError, TpuflexError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.gateway.budgets import Budgets, MemoryCounts
from tpuflex.gateway.clients import Client
from tpuflex.gateway.config import GatewayConfig, key_file
from tpuflex.gateway.first_token import LEAST, FirstTokenLimits
from tpuflex.gateway.gateway_status import GatewayStatus, read_status, status_of, watch_status
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.running import running, running_gateways
from tpuflex.settings.gateway import GatewaySettings, TlsSettings

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
SETTINGS = GatewaySettings.model_validate(
    {
        "port": 0,
        "clients": {
            name: {
                "key_sha256": digit * 64,
                "limits": {"tokens_per_minute": 1000, "usd_per_day": 2},
            }
            for name, digit in (("mobile", "0"), ("nightly", "1"))
        },
    }
)


async def sample() -> GatewayStatus:
    """A gateway before a slice that is slow, one that drains, and a server that is closed."""
    slow = upstream("prod/prod-g7", open=True, in_flight=3, ends=160.0, kv_use=0.5, since=40.0)
    breaker = slow.breaker("interactive", FirstTokenLimits(1.5, 2.0))
    for _ in range(LEAST):
        breaker.first_token(breaker.begin(0.0), 1.9)
    parts = Parts([slow, upstream("prod/prod-g6", open=True, draining=True), upstream("url")])
    parts.found[2].why, parts.found[2].since = "it refuses its key.", 70.0
    counters = parts.counters()
    refused = replace(REFUSED, request_class="", reason=Reason.INVALID_KEY)
    for each in (GOOD, GOOD, REFUSED, refused):
        counters.ended(each)
    budgets = Budgets(MemoryCounts(), now=NOON.timestamp)
    for name, tokens in (("mobile", 250), ("nightly", 900)):
        client = Client(name, "interactive", None, SETTINGS.clients[name].limits)
        await (await budgets.reserve(client, tokens, 500_000)).settle(tokens, 250_000)
    some = cast("Any", parts)
    return status_of(SETTINGS, some, some, counters, budgets, since=NOON, at=NOON, now=100.0)


async def test_what_a_gateway_says_of_itself() -> None:
    """Upstreams with what they have and may have, classes with who waits and what was refused, and
    what clients have used, the fullest limit first."""
    found = await sample()
    upstreams = {each.name: each for each in found.upstreams}
    classes = {each.name: each for each in found.classes}
    slow = upstreams["prod/prod-g7"]

    assert found.models == {"served": 1}
    assert {name: each.state for name, each in upstreams.items()} == {
        "prod/prod-g6": "draining",
        "prod/prod-g7": "open",
        "url": "closed",
    }
    assert (slow.in_flight, slow.limit, slow.kv_use, slow.run_seconds_left) == (3, 4, 0.5, 60.0)
    assert slow.first_token_p95 == 0.8
    # 1.9 s after the clock's 0, and so 98.1 before now.
    late = slow.late["interactive"]
    assert (late.pace, late.limit) == ("slow", 1.5)
    assert (NOON - late.since).total_seconds() == pytest.approx(98.1)
    assert (slow.why, slow.since) == ("", NOON - timedelta(minutes=1))
    closed = upstreams["url"]
    assert (closed.why, closed.since) == ("it refuses its key.", NOON - timedelta(seconds=30))
    assert found.unseen_stacks == {"west": "Stack west has no slice."}
    assert (classes["batch"].waiting, classes["batch"].room) == (3, 2048)
    assert classes["interactive"].answered == 2
    assert classes["interactive"].not_answered == {"overloaded": 1}
    assert classes[""].not_answered == {"invalid_api_key": 1}
    assert [(each.client, each.limit, each.used, each.most) for each in found.limits] == [
        ("nightly", "tokens_per_minute", 900, 1000),
        ("mobile", "tokens_per_minute", 250, 1000),
        ("mobile", "usd_per_day", 0.25, 2),
        ("nightly", "usd_per_day", 0.25, 2),
    ]
    assert GatewayStatus.model_validate_json(json.dumps(found.to_json())) == found


class Server(ThreadingHTTPServer):
    """Answers every GET."""

    status, body = 200, b""
    keys: list[str | None]


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        server = cast("Server", self.server)
        server.keys.append(self.headers.get("Authorization"))
        self.send_response(server.status if self.path == "/tpuflex/gateway" else 404)
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def answering(status: int, body: bytes, pem: Path | None = None) -> Iterator[Server]:
    server = Server(("127.0.0.1", 0), Handler)
    if pem is not None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(pem)
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    server.status, server.body, server.keys = status, body, []
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def started(home: Path, port: int, name: str = "gateway.yaml") -> Iterator[GatewayConfig]:
    """A gateway runs with this state directory, and listens at that port."""
    own_directory(home / "gateway")
    write_private(key_file(home, "operator"), "the-key\n")
    config = GatewayConfig(SETTINGS, name, home, {}, options=f"--config {name}")
    with running(home, config) as listens:
        listens(port)
        yield config


async def test_a_gateway_is_asked_with_its_key(tmp_path: Path) -> None:
    """At the port that it has got, where the configuration leaves that open."""
    said = await sample()
    with (
        answering(200, json.dumps(said.to_json()).encode()) as server,
        started(tmp_path, server.server_port) as config,
    ):
        assert read_status(config, tmp_path) == said

    assert server.keys == ["Bearer the-key"]


async def test_a_gateway_is_known_by_its_certificate(tmp_path: Path) -> None:
    """Whoever signed it; another one gets no key."""
    said = await sample()
    for name in ("own", "other"):
        (tmp_path / name).write_text("".join(certificate()))
    tls = TlsSettings(certificate_file="own", key_file="own")
    body = json.dumps(said.to_json()).encode()

    def status(server: Server) -> GatewayStatus:
        with started(tmp_path, server.server_port) as config:
            settings = SETTINGS.model_copy(update={"tls": tls})
            return read_status(replace(config, settings=settings), tmp_path)

    with answering(200, body, tmp_path / "own") as server:
        assert status(server) == said
    with answering(200, body, tmp_path / "other") as server:
        with pytest.raises(ApiError, match="another certificate"):
            status(server)
        assert server.keys == []


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (401, b"{}", AccessError, "refuses the key"),
        (200, b"<html>", ApiError, "no gateway of tpuflex"),
        (404, b"{}", ApiError, "no gateway of tpuflex"),
    ],
)
def test_what_else_answers(
    tmp_path: Path, status: int, body: bytes, error: type[TpuflexError], words: str
) -> None:
    with (
        answering(status, body) as server,
        started(tmp_path, server.server_port) as config,
        pytest.raises(error, match=words),
    ):
        read_status(config, tmp_path)


def test_no_gateway(tmp_path: Path) -> None:
    """None runs with this configuration, but perhaps one with another; or it does not answer."""
    with started(tmp_path, 1) as config:
        pass
    with started(tmp_path, 8081, "other.yaml"), pytest.raises(ServerDownError) as caught:
        read_status(config, tmp_path)
    assert "No gateway with gateway.yaml runs here" in str(caught.value)
    assert "tpuflex gateway run --config gateway.yaml" in str(caught.value)
    assert "at port 8081: tpuflex gateway status --config other.yaml" in str(caught.value)
    with answering(200, b"") as server:
        port = server.server_port
    with (
        started(tmp_path, port) as config,
        pytest.raises(ServerDownError, match="no connection to http"),
    ):
        read_status(config, tmp_path)


def test_two_gateways_of_a_project(tmp_path: Path) -> None:
    """Each has a configuration and a port of its own; the second of one is refused, and knows
    where the first is. One that has ended is in nobody's way."""
    with started(tmp_path, 8081) as config:
        with pytest.raises(ConflictError, match=r"gateway\.yaml runs already at port 8081"):
            running(tmp_path, config).__enter__()
        there = replace(config, source="b", settings=SETTINGS.model_copy(update={"port": 8081}))
        with pytest.raises(ConflictError, match=r"gateway\.yaml listens at port 8081 already"):
            running(tmp_path, there).__enter__()
    with started(tmp_path, 8081), started(tmp_path, 8082, "other.yaml"):
        assert [each.port for each in running_gateways(tmp_path)] in ([8081, 8082], [8082, 8081])
    assert running_gateways(tmp_path) == []


async def test_a_watch_goes_on_while_there_is_no_answer(tmp_path: Path) -> None:
    """With what was said last, and why there is nothing newer."""
    said = await sample()
    with (
        answering(200, json.dumps(said.to_json()).encode()) as server,
        started(tmp_path, server.server_port) as config,
    ):
        looks = watch_status(config, tmp_path, 1.0, pause=lambda _: None)
        assert next(looks) == said
        server.status = 404
        stale = next(looks)
        server.status = 200
        assert next(looks) == said

    assert "no gateway of tpuflex" in stale.why
    assert stale.upstreams == said.upstreams
