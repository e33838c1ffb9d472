"""P3: every door opens to the owner only: plugins, emulated APIs, control API, metadata server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from embedded_cloud.gcp_plugin.provider import serve
from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.protocol import provider_pb2
from tests.embedded_cloud.api import Api, error_of, flex_start
from tests.security.strangers import ask_grpc, ask_http, grpc_spellings, needs_second_uid, spellings

_AT_ONCE: Any = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0}
_METADATA = "/computeMetadata/v1/instance"
_FLAVOR = {"Metadata-Flavor": "Google"}
_METHODS = [
    f"/pulumirpc.ResourceProvider/{method.name}"
    for method in provider_pb2.DESCRIPTOR.services_by_name["ResourceProvider"].methods
]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud with one host that runs nothing but its metadata server."""
    state = tmp_path / "emulator"
    with EmbeddedCloud(state, capacity=_AT_ONCE, launch_hosts=True) as running:
        body = flex_start(metadata={"enable-guest-attributes": "TRUE"})
        assert Api(running.url, token=running.token).create(body=body).status_code == 200
        running.advance(1)
        yield running


def _metadata_server(cloud: EmbeddedCloud) -> tuple[str, int]:
    (host,) = cloud.cloud.hosts.describe()
    address, _, port = str(host["metadata_server"]).rpartition(":")
    return address, int(port)


@needs_second_uid
def test_a_stranger_calls_no_method_of_a_plugin(cloud: EmbeddedCloud) -> None:
    """S2: over IPv4, plain and mapped to IPv6, every method is refused before its message is read;
    its owner is answered."""
    plugin = serve(cloud.url, token=cloud.token)
    try:
        at = grpc_spellings(plugin.port)
        assert set(ask_grpc(at, _METHODS)) == {"PERMISSION_DENIED"}
        info = ["/pulumirpc.ResourceProvider/GetPluginInfo"]
        assert ask_grpc(at, info, user=0) == ["OK", "OK"]
    finally:
        plugin.stop()


@needs_second_uid
def test_a_stranger_gets_no_answer_of_the_embedded_cloud(cloud: EmbeddedCloud) -> None:
    """S3: neither control API nor emulated APIs, over IPv4, plain and mapped to IPv6, without any
    token, with a host's, or with the owner's."""
    port = urlsplit(cloud.url).port or 0
    tokens = ["", cloud.cloud.access.host_token("n1"), cloud.token]
    paths = [
        ("GET", "/_emulator/health"),
        ("POST", "/_emulator/reset"),
        ("GET", "/v2alpha1/projects/p/locations/us-east5-a/nodes"),
        ("GET", "/storage/v1/b?project=p"),
        ("GET", "/nothing"),
    ]
    wanted = [
        (method, path, {"Authorization": f"Bearer {token}"} if token else {})
        for token in tokens
        for method, path in paths
    ]
    answers = ask_http(spellings(port), wanted)
    assert {status for status, _ in answers} == {403}
    assert len(answers) == 2 * len(wanted)
    own = ask_http(spellings(port), [wanted[-5]], user=0)
    assert [status for status, _ in own] == [200, 200]


@needs_second_uid
def test_a_stranger_gets_no_token_for_credentials(cloud: EmbeddedCloud) -> None:
    """S3: token servers ask for no token, and the caller's metadata server for nothing at all;
    others get nothing from them, over IPv4, plain and mapped to IPv6."""
    cloud.environ("metadata")
    port = urlsplit(cloud.url).port or 0
    wanted = [
        ("POST", "/token", {}),
        ("POST", "/v1/token", {}),
        ("GET", "/", _FLAVOR),
        ("GET", f"{_METADATA}/service-accounts/default/token", _FLAVOR),
    ]
    answers = ask_http(spellings(port), wanted)
    assert {status for status, _ in answers} == {403}
    assert len(answers) == 2 * len(wanted)
    own = ask_http(spellings(port), wanted, user=0)
    assert [status for status, _ in own] == [400, 400, 200, 200] * 2


@needs_second_uid
def test_a_stranger_gets_no_hosts_token(cloud: EmbeddedCloud) -> None:
    """S3: a metadata server refuses everything to others, over IPv4, plain and mapped to IPv6."""
    address, port = _metadata_server(cloud)
    token = ("GET", f"{_METADATA}/service-accounts/default/token", {**_FLAVOR, "Host": address})
    wanted = [("GET", "/", {}), token, ("PUT", f"{_METADATA}/guest-attributes/a/b", _FLAVOR)]
    answers = ask_http(spellings(port, address), wanted)
    assert {status for status, _ in answers} == {403}
    own = ask_http(spellings(port, address), [token], user=0)
    assert [status for status, _ in own] == [200, 200]


@needs_second_uid
def test_a_stranger_does_not_get_to_iap(tmp_path: Path) -> None:
    """The door of the emulated IAP refuses others before TLS, over IPv4, plain and mapped."""
    strict: Any = {"network": {"private_addresses": True}}
    with EmbeddedCloud(tmp_path / "iap", strictness=strict) as cloud:
        port = urlsplit(cloud.tunnel_environ()["https_proxy"]).port or 0
        wanted: list[tuple[str, str, dict[str, str]]] = [
            ("CONNECT", "tunnel.cloudproxy.app:443", {}),
            ("GET", "/", {}),
        ]
        answers = ask_http(spellings(port), wanted)
        own = ask_http(spellings(port), wanted[:1], user=0)
    assert [status for status, _ in answers] == [403] * 4
    assert [status for status, _ in own] == [200, 200]


def test_the_control_api_wants_the_owners_token(cloud: EmbeddedCloud) -> None:
    """S3: being the owner's process is not enough: a host's processes are that, too."""
    url = f"{cloud.url}/_emulator/reset"
    assert requests.post(url, timeout=60).status_code == 401
    host = Api(cloud.url, token=cloud.cloud.access.host_token("n1"))
    assert error_of(host.call("POST", "_emulator/reset"))[:2] == (403, "PERMISSION_DENIED")
    assert Api(cloud.url, token=cloud.token).node_state() == "READY"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "metadata.google.internal"}, 200),
        ({"Host": "metadata"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "["}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"X-Forwarded-For": "10.0.0.1"}, 403),
    ],
)
def test_a_metadata_server_answers_to_its_names_only(
    cloud: EmbeddedCloud, headers: dict[str, str], status: int
) -> None:
    """S16: a web page whose name was made to point to this machine may set Metadata-Flavor, but
    not Host."""
    address, port = _metadata_server(cloud)
    url = f"http://{address}:{port}{_METADATA}/id"
    answer = requests.get(url, headers={**_FLAVOR, **headers}, timeout=60)
    assert answer.status_code == status


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example:8470"}, {"Origin": "http://127.0.0.1:8080"}, {"Host": ""}]
)
@pytest.mark.parametrize("path", ["_emulator/history", "storage/v1/b?project=p"])
def test_the_embedded_cloud_is_not_for_web_pages(
    cloud: EmbeddedCloud, path: str, headers: dict[str, str]
) -> None:
    """S16: neither its control API nor its emulated APIs, even with the token."""
    bearer = {"Authorization": f"Bearer {cloud.token}"}
    assert requests.get(f"{cloud.url}/{path}", headers=bearer, timeout=60).status_code == 200
    answer = requests.get(f"{cloud.url}/{path}", headers={**bearer, **headers}, timeout=60)
    assert answer.status_code in (400, 403)
