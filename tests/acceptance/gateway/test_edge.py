"""The real Envoy, as `gateway render envoy` configures it, before a gateway."""

from __future__ import annotations

import asyncio
import signal
import ssl
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from aiohttp.test_utils import unused_port

from tests.acceptance.environments import environment
from tests.gateway.gateway_rig import (
    HANDED_ON,
    KEY,
    MODEL,
    OPERATOR_KEY,
    ROLE,
    Scripted,
    delta,
    gateway_before,
    stalls_after,
)
from tests.security.certificates import certificate
from tpuflex.gateway.config import GatewayConfig
from tpuflex.gateway.render import envoy_edge
from tpuflex.settings.gateway import GatewaySettings

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Count."}], "stream": True}


@asynccontextmanager
async def edge(directory: Path, gateway_port: int) -> AsyncIterator[aiohttp.ClientSession]:
    """Envoy before the gateway at ``gateway_port``, and a client of it."""
    pem, key = certificate()
    for name, text in (("tls.pem", pem), ("key.pem", key)):
        (directory / name).write_text(text)
    port = unused_port()
    rendered = envoy_edge(
        GatewayConfig(GatewaySettings(port=gateway_port), "gateway.yaml", directory, {}),
        certificate=str(directory / "tls.pem"),
        key=str(directory / "key.pem"),
        host="127.0.0.1",
        port=port,
    )
    file = directory / "envoy.yaml"
    file.write_text(rendered.text)
    command = (environment("gateway-tools") / "envoy", "--config-path", file, "--log-level", "warn")
    validated = await asyncio.to_thread(
        subprocess.run, (*command, "--mode", "validate"), capture_output=True, text=True
    )
    assert validated.returncode == 0, validated.stderr
    assert "warning" not in validated.stderr
    process = await asyncio.create_subprocess_exec(
        *command, "--disable-hot-restart", "--concurrency", "1"
    )
    trusted = ssl.create_default_context(cadata=pem)
    trusted.check_hostname = False
    base = f"https://127.0.0.1:{port}"
    connector = aiohttp.TCPConnector(ssl=trusted)
    headers = {"Authorization": f"Bearer {KEY}"}
    try:
        async with aiohttp.ClientSession(base, connector=connector, headers=headers) as session:
            await listening(session)
            yield session
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def listening(session: aiohttp.ClientSession) -> None:
    while True:
        try:
            async with session.get("/health"):
                return
        except aiohttp.ClientConnectorError:
            await asyncio.sleep(0.05)


async def test_what_goes_through_an_edge(tmp_path: Path) -> None:
    """A stream as it is, under the name that the client gave it; of paths only the clients'."""
    async with gateway_before(Scripted()) as rig, edge(tmp_path, rig.port) as session:
        named = {"x-request-id": "the-clients-own"}
        async with session.post("/v1/chat/completions", json=CHAT, headers=named) as response:
            assert await response.read() == HANDED_ON
            assert response.headers["x-request-id"] == "the-clients-own"
        operator = {"Authorization": f"Bearer {OPERATOR_KEY}"}
        for path in ("/metrics", "/tpuflex/gateway", "/v1%2fmodels", "/"):
            async with session.get(path, headers=operator) as response:
                assert response.status in (400, 404), path
        assert len(rig.outcomes) == 1


async def test_a_client_that_leaves_an_edge(tmp_path: Path) -> None:
    """Its request ends upstream, through Envoy and the gateway."""
    upstream = Scripted([stalls_after(ROLE, delta(content="one"))])
    async with gateway_before(upstream) as rig, edge(tmp_path, rig.port) as session:
        async with session.post("/v1/chat/completions", json=CHAT) as response:
            assert await response.content.readuntil(b"one")
            (asked,) = upstream.asked
        await asyncio.wait_for(asked.left.wait(), 5)
