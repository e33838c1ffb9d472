"""Who asks for what at a gateway, and the answer to it."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import os
import re
import resource
import ssl
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.gateway.gateway_rig import (
    ANSWER,
    HANDED_ON,
    KEY,
    MODEL,
    OPERATOR_KEY,
    ROLE,
    Rig,
    Scripted,
    gateway_before,
    stalls_after,
    waits_after,
)
from tests.security.certificates import certificate
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.gateway.outcome import Reason
from tpuflex.gateway.server import serving
from tpuflex.settings.gateway import GatewaySettings

STOPPING = "gateway_stopping"


def bearing(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


async def status(rig: Rig, path: str, key: str = "") -> int:
    headers = bearing(key) if key else {}
    async with rig.session.get(path, headers=headers) as response:
        assert response.headers["x-request-id"]
        return response.status


async def test_health_takes_head_as_well() -> None:
    """Monitors and load balancers ask so by default, and of a stack's server they may."""
    async with (
        gateway_before(Scripted()) as rig,
        rig.session.head("/health") as response,
    ):
        assert response.status == 200


async def test_of_too_many_connections_the_oldest_without_a_request_is_closed() -> None:
    """So strangers keep nobody out; a new one is refused where all have requests."""
    async with gateway_before(Scripted(always=stalls_after(*ANSWER[:2])), connections=2) as rig:
        strangers = [await asyncio.open_connection("127.0.0.1", rig.port) for _ in range(3)]
        async with rig.stream(), rig.stream():
            for reader, _ in strangers:
                assert await reader.read() == b""
            reader, writer = await asyncio.open_connection("127.0.0.1", rig.port)
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 ")
        assert json.loads(body)["error"]["code"] == "overloaded"
        for _, each in (*strangers, (reader, writer)):
            each.close()


async def test_no_upstream_is_blamed_where_descriptors_have_run_out() -> None:
    async with gateway_before(upstream := Scripted(), second := Scripted()) as rig:
        assert await status(rig, "/health") == 200
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        next_one = os.dup(0)
        os.close(next_one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, hard))
        try:
            async with rig.stream() as response:
                assert response.status == 503
                assert response.headers["x-tpuflex-reason"] == "overloaded"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert rig.upstreams.suspected == rig.upstreams.doubted == []
    assert upstream.asked == second.asked == []


async def test_who_may_see_what() -> None:
    """A client its models, the operator what the gateway does, and everybody whether it serves."""
    async with gateway_before(Scripted()) as rig:
        async with rig.session.get("/v1/models", headers=bearing(KEY)) as response:
            assert [each["id"] for each in (await response.json())["data"]] == [MODEL]
        for path, right, wrong in (
            ("/v1/models", KEY, OPERATOR_KEY),
            ("/metrics", OPERATOR_KEY, KEY),
            ("/tpuflex/gateway", OPERATOR_KEY, KEY),
        ):
            assert await status(rig, path, right) == 200
            assert await status(rig, path, wrong) == 401
            assert await status(rig, path) == 401
        assert await status(rig, "/health") == 200
        [upstream] = rig.upstreams.connections
        upstream.draining = True
        assert await status(rig, "/health") == 503


@pytest.mark.parametrize(
    ("host", "error", "words"),
    [
        ("127.0.0.1", TpuflexError, "of 127.0.0.1 cannot be used: Address already in use"),
        ("192.0.2.1", NotFoundError, "This machine has no address 192.0.2.1"),
    ],
)
async def test_where_it_cannot_listen(host: str, error: type[TpuflexError], words: str) -> None:
    """That is said, in the system's words."""
    async with gateway_before(Scripted()) as rig:
        with pytest.raises(error, match=words):
            await serving(rig.gateway, rig.relay, host, rig.port).__aenter__()


async def test_what_is_under_way_ends_before_the_gateway_does() -> None:
    """A stream, and a request that waits for a place; nothing new is taken."""
    goes_on = asyncio.Event()
    upstream = Scripted([waits_after(*ANSWER[:3], then=ANSWER[3:], goes_on=goes_on)])
    async with gateway_before(upstream, most=1, drain=60) as rig:
        async with rig.stream() as response:
            waits = asyncio.ensure_future(rig.streamed())
            await rig.has_waiting(1)
            stopping = asyncio.ensure_future(rig.stop())
            await asyncio.sleep(0)
            goes_on.set()
            assert await response.read() == HANDED_ON
        assert await waits == (200, HANDED_ON)
        await stopping
        with pytest.raises(aiohttp.ClientConnectorError):
            await rig.streamed()
        assert rig.relay.cut_off == 0


async def test_what_is_under_way_too_long_ends_with_an_error() -> None:
    """No sooner than it may and no later: a stream as one whose server fails, and with a refusal
    what has no answer yet."""
    upstream = Scripted([stalls_after(*ANSWER[:2])], always=stalls_after())
    async with gateway_before(upstream, most=2, drain=0.2) as rig:
        async with rig.stream() as response:
            others = [asyncio.ensure_future(each()) for each in (rig.streamed, rig.whole)]
            await rig.has_waiting(1)
            began = time.monotonic()
            await rig.stop()
            assert 0.2 <= time.monotonic() - began < 5
            said = await response.read()
        refusals = await asyncio.gather(*others)

    assert said.startswith(ROLE + ANSWER[1])
    assert json.loads(said.removeprefix(ROLE + ANSWER[1] + b"data: "))["error"]["code"] == STOPPING
    for status, body in refusals:
        assert (status, json.loads(body)["error"]["code"]) == (503, STOPPING)
    assert rig.relay.cut_off == 3
    assert [each.reason for each in rig.outcomes] == 3 * [STOPPING]
    assert rig.in_flight == 0


@pytest.mark.parametrize(
    ("key", "document", "status", "reason"),
    [
        ("another", {}, 401, "invalid_api_key"),
        (KEY, {"model": "unknown"}, 404, "model_not_found"),
        (KEY, {"n": 5}, 400, "invalid_request"),
        (KEY, {"max_tokens": 10**6}, 400, "invalid_request"),
        (KEY, {"user": "x" * 1024}, 413, "body_too_long"),
    ],
)
async def test_what_is_refused_reaches_no_upstream(
    key: str, document: dict[str, Any], status: int, reason: str
) -> None:
    """And is counted, with why."""
    upstream = Scripted()
    settings = GatewaySettings.model_validate({"requests": {"body_bytes": 1024}})
    async with (
        gateway_before(upstream, settings=settings) as rig,
        rig.ask(key=key, **document) as response,
    ):
        assert response.status == status
        assert (await response.json())["error"]["code"] == reason
        assert response.headers["x-tpuflex-reason"] == reason

    assert upstream.asked == []
    [outcome] = rig.outcomes
    assert (outcome.status, outcome.reason) == (status, reason)


def kept_requests() -> int:
    gc.collect()
    return sum(type(each) is web.BaseRequest for each in gc.get_objects())


async def test_a_body_that_is_too_long_is_not_kept() -> None:
    """Nor the request that had it: a client could fill the memory with them."""
    settings = GatewaySettings.model_validate({"requests": {"body_bytes": 1024}})
    async with gateway_before(Scripted(), settings=settings) as rig:
        before = kept_requests()
        for _ in range(5):
            status, body = await rig.whole(user="x" * 1024)
            assert status == 413
            assert b"1,024 bytes" in body

        assert kept_requests() <= before + 1  # the last of the connection


async def test_a_stream_goes_over_tls(tmp_path: Path) -> None:
    """With a certificate and key of its own."""
    signed, key = certificate()
    (tmp_path / "both.pem").write_text(signed + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "both.pem")
    trusting = ssl.create_default_context(cadata=signed)
    trusting.check_hostname = False
    async with gateway_before(Scripted(), tls=tls) as rig:
        url = f"https://127.0.0.1:{rig.port}/v1/chat/completions"
        body = {"model": MODEL, "stream": True, "messages": []}
        async with (
            aiohttp.ClientSession(headers=bearing(KEY)) as session,
            session.post(url, json=body, ssl=trusting) as response,
        ):
            assert await response.read() == HANDED_ON
        await asyncio.sleep(0)


async def test_a_long_prompt_is_handed_on() -> None:
    """Of more bytes than fit in any buffer."""
    upstream = Scripted()
    async with gateway_before(upstream) as rig:
        long = "word " * 500_000
        body = io.BytesIO(json.dumps({"model": MODEL, "prompt": long}).encode())
        headers = bearing(KEY)
        async with rig.session.post("/v1/completions", data=body, headers=headers) as response:
            assert response.status == 200

    assert upstream.asked[0].document["prompt"] == long


def test_the_guide_has_every_reason() -> None:
    """A client that gets one finds there what it means."""
    guide = Path(__file__, "../../../docs/how-to/gateway.md").resolve().read_text()
    section = guide.partition("## Overload")[2].partition("\n## ")[0]
    assert set(Reason) == set(re.findall(r"`([a-z_]+)`", section)) & set(Reason)
