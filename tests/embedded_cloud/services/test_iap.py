"""The emulated IAP: what it lets through, and how it refuses."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import aiohttp
import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN, Api
from tests.embedded_cloud.compute_api import GLOBAL, NETWORK, insert
from tests.embedded_cloud.iap_client import PRIVATE, ZONE, break_off, knock, ready_node, relayed

DATA = b"\0\4"


@pytest.fixture
def private(tmp_path: Path, clock: ManualClock) -> Iterator[EmbeddedCloud]:
    """A cloud whose hosts have private addresses, and run nothing."""
    with EmbeddedCloud(
        tmp_path / "emulator", token=TOKEN, clock=clock, stub_hosts=True, strictness=PRIVATE
    ) as running:
        yield running


@pytest.fixture
def door(private: EmbeddedCloud) -> Mapping[str, str]:
    """What gcloud is told of the way in."""
    return private.tunnel_environ()


@pytest.fixture
def api(private: EmbeddedCloud) -> Api:
    return Api(private.url)


def target(instance: str, port: int = 22) -> dict[str, object]:
    return {
        "project": PROJECT,
        "zone": ZONE,
        "instance": instance,
        "interface": "nic0",
        "port": port,
        "newWebsocket": True,
    }


def served(address: str) -> tuple[HTTPServer, int]:
    """A server of the host that answers every GET with its path."""

    class Host(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.path.encode() * 3000
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer((address, 0), Host)
    Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    return server, server.server_port


def test_a_lenient_cloud_has_no_tunnel(tmp_path: Path) -> None:
    """Hosts on loopback need none, and publish no names for one."""
    with EmbeddedCloud(tmp_path / "emulator", token=TOKEN) as cloud:
        refused = Api(cloud.url).call("GET", "/_emulator/iap")
    assert refused.status_code == 400
    assert "network.private_addresses" in refused.json()["error"]["message"]


def test_hosts_publish_their_name_and_key(private: EmbeddedCloud, api: Api) -> None:
    """As guest agents do: gcloud asks for all workers by one empty id."""
    name = ready_node(private, api)

    answer = api.tpu("POST", "nodes/n:getGuestAttributes", body={"workerIds": [""]}).json()

    items = answer["guestAttributes"][0]["queryValue"]["items"]
    found = {each["key"]: each["value"] for each in items if each["namespace"] == "hostkeys"}
    assert found["hostname"] == name
    assert found["ssh-ed25519"].startswith("AAAAC3NzaC1lZDI1NTE5")


async def test_bytes_go_through(private: EmbeddedCloud, api: Api, door: Mapping[str, str]) -> None:
    """A port that a rule lets IAP reach: a session, then what the host says, and its end."""
    insert(api, f"{GLOBAL}/networks", NETWORK)
    name = ready_node(private, api, networkConfig={"network": "global/networks/net-1"})
    (spec,) = private.cloud.tpu.desired_hosts()
    server, port = served(spec.address)
    insert(api, f"{GLOBAL}/firewalls", _rule(port))

    async with relayed(door, target(name, port)) as client:
        assert (await client.receive_bytes())[:2] == b"\0\1"
        request = b"GET /x HTTP/1.0\r\n\r\n"
        await client.send_bytes(DATA + struct.pack(">I", len(request)) + request)
        received = b""
        while (message := await client.receive()).type is aiohttp.WSMsgType.BINARY:
            assert message.data[:2] == DATA
            received += message.data[6:]
    server.shutdown()
    server.server_close()

    assert received.endswith(b"/x" * 3000)
    assert client.close_code == 1000


async def test_a_connection_that_broke_off_goes_on(
    private: EmbeddedCloud, api: Api, door: Mapping[str, str]
) -> None:
    """With the session's id and what was received; nothing is lost, nothing comes twice."""
    name = ready_node(private, api)
    async with relayed(door, target(name)) as first:
        sid = (await first.receive_bytes())[6:].decode()
        banner = (await first.receive_bytes())[6:]
        break_off(first)

    async with relayed(
        door, {"sid": sid, "ack": 4, "zone": ZONE, "newWebsocket": True}, path="reconnect"
    ) as again:
        assert await again.receive_bytes() == b"\0\2" + bytes(8)
        assert (await again.receive_bytes())[6:] == banner[4:]
    assert banner.startswith(b"SSH-2.0-")


@pytest.mark.parametrize(
    ("change", "code", "reason"),
    [
        ({"instance": "t1v-n-other-w-0"}, 4047, "Failed to lookup instance"),
        ({"zone": "us-east5-b"}, 4047, "Failed to lookup instance"),
        ({"port": 8000}, 4003, "failed to connect to backend"),
    ],
)
async def test_iaps_own_refusals(
    private: EmbeddedCloud,
    api: Api,
    door: Mapping[str, str],
    change: dict[str, object],
    code: int,
    reason: str,
) -> None:
    """An unknown host, and a port that no rule lets IAP reach."""
    name = ready_node(private, api)
    async with relayed(door, target(name) | change) as client:
        message = await client.receive()
    assert (client.close_code, message.extra) == (code, reason)


async def test_without_the_rule_for_ssh(
    private: EmbeddedCloud, api: Api, door: Mapping[str, str]
) -> None:
    """A network of one's own lets nobody in but by its rules: removed, IAP fails as on Google."""
    insert(api, f"{GLOBAL}/networks", NETWORK)
    network = f"projects/{PROJECT}/global/networks/net-1"
    name = ready_node(private, api, networkConfig={"network": network})
    codes = []
    for rules in ([], [_rule(22)]):
        for each in rules:
            insert(api, f"{GLOBAL}/firewalls", each)
        async with relayed(door, target(name)) as client:
            codes.append((await client.receive()).type)
    assert codes == [aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.BINARY]


@pytest.mark.parametrize(
    ("token", "origin", "status"),
    [
        ("", "bot:iap-tunneler", 401),
        ("ya29.other", "bot:iap-tunneler", 401),
        (TOKEN, "https://evil.example", 403),
    ],
)
async def test_who_is_let_in(door: Mapping[str, str], token: str, origin: str, status: int) -> None:
    """P3: the cloud's token is wanted, and no web page gets in."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with relayed(door, target("x"), token=token, origin=origin):
            pytest.fail("it is open")
    assert refused.value.status == status


async def test_without_the_role(private: EmbeddedCloud, api: Api, door: Mapping[str, str]) -> None:
    """Who lacks roles/iap.tunnelResourceAccessor is told so by IAP's own code."""
    name = ready_node(private, api)
    missing: JsonObject = {"missing": ["iap.tunnelInstances.accessViaIAP"]}
    private.cloud.strictness.change({"permissions": missing})
    async with relayed(door, target(name)) as client:
        message = await client.receive()
    assert (client.close_code, message.extra) == (4033, "not authorized")


async def test_a_host_may_not_tunnel(private: EmbeddedCloud, door: Mapping[str, str]) -> None:
    """P3: a host's own token opens no way to other hosts."""
    token = private.cloud.access.host_token("n")
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        async with relayed(door, target("x"), token=token):
            pytest.fail("it is open")
    assert refused.value.status == 403


@pytest.mark.parametrize(
    "request_",
    [
        b"CONNECT www.googleapis.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT tunnel.cloudproxy.app:22 HTTP/1.1\r\n\r\n",
        b"GET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n",
        b"CONNECT tunnel.cloudproxy.app:443 HTTP/1.1\r\n\r\nmore",
        b"x" * 10_000,
    ],
)
def test_the_door_leads_to_the_relay_only(door: Mapping[str, str], request_: bytes) -> None:
    """P3: it is no proxy to anywhere else, and reads no endless request."""
    assert knock(door, request_).startswith(b"HTTP/1.1 403 ")


def test_only_the_owners_processes_are_let_in(
    door: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P3: whose process it is, the kernel says; a stranger gets no further than the door."""
    monkeypatch.setattr(
        "embedded_cloud.services.iap.iap.is_own_connection", lambda _connection: False
    )

    answer = knock(door, b"CONNECT tunnel.cloudproxy.app:443 HTTP/1.1\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 403 ")


def _rule(port: int) -> dict[str, object]:
    return {
        "name": f"iap-{port}",
        "network": "global/networks/net-1",
        "sourceRanges": ["35.235.240.0/20"],
        "targetTags": ["host"],
        "allowed": [{"IPProtocol": "tcp", "ports": [str(port)]}],
    }
