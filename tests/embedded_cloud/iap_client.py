"""A client of the emulated IAP that does what it is told, also what gcloud would not do."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode, urlsplit

import aiohttp

from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import TOKEN, Api

ZONE = "us-east5-a"
PRIVATE: JsonObject = {"network": {"private_addresses": True}}
NODE: dict[str, Any] = {
    "acceleratorType": "v6e-1",
    "runtimeVersion": "v2-alpha-tpuv6e",
    "tags": ["host"],
    "metadata": {"enable-guest-attributes": "TRUE", "enable-oslogin": "TRUE"},
}


def ready_node(cloud: EmbeddedCloud, api: Api, **changes: object) -> str:
    """A node that is READY; the name of its host, as it publishes it."""
    made = api.tpu("POST", "nodes", body={**NODE, **changes}, nodeId="n")
    assert made.status_code == 200, made.text
    for _ in range(100):
        if api.tpu("GET", "nodes/n").json().get("state") == "READY":
            break
        cloud.advance(60)
    cloud.advance(0)
    (spec,) = cloud.cloud.tpu.desired_hosts()
    return spec.name


def relay_context(environ: Mapping[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=environ["CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE"])


@asynccontextmanager
async def relayed(
    environ: Mapping[str, str],
    query: Mapping[str, object],
    *,
    path: str = "connect",
    token: str = TOKEN,
    origin: str = "bot:iap-tunneler",
) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
    """A WebSocket to the relay, through the door."""
    url = f"wss://tunnel.cloudproxy.app/v4/{path}?{urlencode(query)}"
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession(trust_env=False) as session,
        session.ws_connect(
            url,
            proxy=environ["https_proxy"],
            ssl=relay_context(environ),
            headers=headers,
            origin=origin or None,
            protocols=("relay.tunnel.cloudproxy.app",),
        ) as client,
    ):
        transport = _transport(client)
        try:
            yield client
        finally:
            # aiohttp leaves it to the garbage collector, as TLS has not said good-bye.
            transport.abort()


def break_off(client: aiohttp.ClientWebSocketResponse) -> None:
    """End the connection without a word, as a network does."""
    _transport(client).abort()


def _transport(client: aiohttp.ClientWebSocketResponse) -> asyncio.Transport:
    connection = client._response.connection
    assert connection is not None
    assert isinstance(connection.transport, asyncio.Transport)
    return connection.transport


def knock(environ: Mapping[str, str], request: bytes) -> bytes:
    """What the door answers to a request; empty if it says nothing."""
    door = urlsplit(environ["https_proxy"])
    with socket.create_connection((str(door.hostname), door.port or 0), 5) as client:
        client.settimeout(5)
        client.sendall(request)
        return client.recv(4096)
