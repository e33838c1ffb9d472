"""What a host's metadata server answers."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections.abc import AsyncIterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from watch_host import Asked, Metadata

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import LENIENT, OrganizationPolicies, Strictness, Tokens
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.machines.hosts.metadata_server import MetadataServer
from embedded_cloud.machines.hosts.metadata_tree import HostToken, metadata_tree
from embedded_cloud.machines.hosts.spec import HostSpec, TpuWorker
from embedded_cloud.strict.book import STRICT

_SPEC = HostSpec(
    key="n1",
    owner="projects/p/locations/us-east5-a/nodes/n1",
    name="t1v-n-499602d2-w-0",
    instance_id="1234567890",
    worker=0,
    address="127.0.0.2",
    project="p",
    project_number="42",
    zone="us-east5-a",
    machine_type="ct6e-standard-8t",
    service_account="sa@p.iam.gserviceaccount.com",
    scopes=("https://www.googleapis.com/auth/cloud-platform",),
    metadata={"enable-guest-attributes": "TRUE", "tpuflex-config": '{"a":1}'},
    description="",
    boot_id="1",
    tpu=TpuWorker("n1", ("127.0.0.2", "127.0.0.3"), "v6e-8", "2x4"),
)
_CLOCK = ManualClock()
_FLAVOR = {"Metadata-Flavor": "Google"}
_V1 = "/computeMetadata/v1"


_TOKENS = itertools.count()


def _server(
    spec: HostSpec, guest: GuestAttributes, strictness: Strictness = LENIENT
) -> MetadataServer:
    return MetadataServer(
        spec,
        guest,
        lambda _lifetime: f"ya29.of-this-host.{next(_TOKENS)}",
        clock=_CLOCK,
        strictness=lambda: strictness,
    )


@pytest.fixture
def guest() -> GuestAttributes:
    """Guest attributes in memory."""
    return GuestAttributes(Store(None))


@pytest_asyncio.fixture
async def client(guest: GuestAttributes) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of a running metadata server."""
    server = _server(_SPEC, guest)
    await server.start()
    async with aiohttp.ClientSession(f"http://{server.address}", headers=_FLAVOR) as session:
        yield session
    await server.stop()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("instance/attributes/tpuflex-config", '{"a":1}'),
        ("instance/attributes/accelerator-type", "v6e-8"),
        ("instance/attributes/agent-worker-number", "0"),
        (
            "instance/attributes/worker-network-endpoints",
            "unknown:unknown:127.0.0.2,unknown:unknown:127.0.0.3",
        ),
        ("instance/id", "1234567890"),
        ("instance/zone", "projects/42/zones/us-east5-a"),
        ("instance/machine-type", "projects/42/machineTypes/ct6e-standard-8t"),
        ("instance/description", "n1"),
        ("instance/network-interfaces/0/ip", "127.0.0.2"),
        ("instance/service-accounts/default/email", "sa@p.iam.gserviceaccount.com"),
        (
            "instance/service-accounts/default/scopes",
            "https://www.googleapis.com/auth/cloud-platform\n",
        ),
        ("instance/service-accounts/", "default/\nsa@p.iam.gserviceaccount.com/\n"),
        ("project/project-id", "p"),
        ("project/numeric-project-id", "42"),
    ],
)
async def test_values_are_plain_text(client: aiohttp.ClientSession, path: str, value: str) -> None:
    """What scripts read with curl."""
    async with client.get(f"{_V1}/{path}") as answer:
        assert (answer.status, await answer.text()) == (200, value)
        assert answer.headers["Metadata-Flavor"] == "Google"


async def test_tpu_env_is_lines_of_quoted_values(client: aiohttp.ClientSession) -> None:
    """The form that libtpu's callers parse."""
    async with client.get(f"{_V1}/instance/attributes/tpu-env") as answer:
        lines = (await answer.text()).splitlines()
    assert {"ACCELERATOR_TYPE: 'v6e-8'", "TOPOLOGY: '2x4'", "WORKER_ID: '0'"} <= set(lines)


async def test_without_the_flavor_header_nothing_is_told(client: aiohttp.ClientSession) -> None:
    """The header keeps requests that are not meant for it from reading a token."""
    path = f"{_V1}/instance/service-accounts/default/token"
    for headers in ({"Metadata-Flavor": ""}, {"X-Forwarded-For": "1.2.3.4"}):
        async with client.get(path, headers=headers) as answer:
            assert answer.status == 403
            assert "access_token" not in await answer.text()


async def _token(client: aiohttp.ClientSession) -> dict[str, Any]:
    async with client.get(f"{_V1}/instance/service-accounts/default/token") as answer:
        token: dict[str, Any] = await answer.json(content_type=None)
        return token


async def test_a_token_is_given_until_it_is_about_to_expire(client: aiohttp.ClientSession) -> None:
    """The same one with less and less time, another one when five minutes are left of it."""
    first = await _token(client)
    _CLOCK.advance(3298)
    later = await _token(client)
    assert later == {**first, "expires_in": 301}
    _CLOCK.advance(1)
    renewed = await _token(client)
    assert renewed["expires_in"] == 3599
    assert renewed["access_token"] != first["access_token"]


async def test_tokens_live_as_long_as_strictness_says(guest: GuestAttributes) -> None:
    """A shorter life is told, and half of it is kept."""
    server = _server(_SPEC, guest, Strictness(tokens=Tokens(lifetime_s=60)))
    await server.start()
    async with aiohttp.ClientSession(f"http://{server.address}", headers=_FLAVOR) as session:
        first = await _token(session)
        _CLOCK.advance(29)
        assert await _token(session) == {**first, "expires_in": 31}
        _CLOCK.advance(1)
        assert (await _token(session))["access_token"] != first["access_token"]
    await server.stop()
    assert first["expires_in"] == 60


async def test_an_absent_key_is_not_found(client: aiohttp.ClientSession) -> None:
    """404, also below a value."""
    for path in ("instance/attributes/none", "instance/id/x", "nothing"):
        async with client.get(f"{_V1}/{path}") as answer:
            assert answer.status == 404


async def _wait(client: aiohttp.ClientSession, **query: str) -> tuple[int, str]:
    path = f"{_V1}/instance/attributes/drain"
    async with client.get(path, params={"wait_for_change": "true", **query}) as answer:
        return answer.status, await answer.text()


async def test_a_client_waits_for_a_change(guest: GuestAttributes) -> None:
    """With wait_for_change an answer comes when the value is another one, or gone; at once for a
    client that names an ETag of before, and after timeout_sec as it is."""
    spec = dataclasses.replace(_SPEC, metadata={**_SPEC.metadata, "drain": "1"})
    server = _server(spec, guest)
    await server.start()
    async with aiohttp.ClientSession(f"http://{server.address}", headers=_FLAVOR) as session:
        async with session.get(f"{_V1}/instance/attributes/drain") as answer:
            etag = answer.headers["ETag"]
        assert await _wait(session, last_etag="other") == (200, "1")
        assert await _wait(session, last_etag=etag, timeout_sec="0") == (200, "1")
        assert (await _wait(session, timeout_sec="soon"))[0] == 400
        server.waited_for.clear()
        waits = asyncio.ensure_future(_wait(session, last_etag=etag))
        await server.waited_for.wait()
        server.update(dataclasses.replace(spec, metadata={**spec.metadata, "other": "1"}))
        server.update(dataclasses.replace(spec, metadata={**spec.metadata, "drain": "2"}))
        assert await waits == (200, "2")
        server.waited_for.clear()
        waits = asyncio.ensure_future(_wait(session))
        await server.waited_for.wait()
        server.update(_SPEC)
        assert (await waits)[0] == 404
        assert (await _wait(session))[0] == 404
    await server.stop()


async def test_the_watch_sees_a_drain_at_once(guest: GuestAttributes, tmp_path: Path) -> None:
    """A key that is set, changed or taken back while the watch of a host waits is seen before the
    time of its next look."""
    server = _server(_SPEC, guest)
    await server.start()
    watch = Metadata(f"http://{server.address}{_V1}", tmp_path / "asked", 10, _CLOCK.now)
    assert await asyncio.to_thread(watch.asked_for) == Asked()
    async with asyncio.timeout(60):
        for said in ("2026-11-26T12:00:00Z", "2026-11-26T13:00:00Z", ""):
            server.waited_for.clear()
            waits = asyncio.ensure_future(asyncio.to_thread(watch.asked_for, 600))
            await server.waited_for.wait()
            key = {"tpuflex-drain": said} if said else {}
            server.update(dataclasses.replace(_SPEC, metadata={**_SPEC.metadata, **key}))
            assert await waits == Asked(said)
    await server.stop()


async def test_answers_say_the_clouds_time(client: aiohttp.ClientSession) -> None:
    """A host counts its run by the clock that ends it, also where an answer is a refusal."""
    for path, headers in (("instance/id", _FLAVOR), ("nothing", _FLAVOR), ("instance/id", {})):
        async with client.get(f"{_V1}/{path}", headers=headers) as answer:
            said = parsedate_to_datetime(answer.headers["Date"]).timestamp()
        assert said == int(_CLOCK.now())


async def test_directories_list_and_recurse(client: aiohttp.ClientSession) -> None:
    """One name per line, or with ``recursive=true`` everything as JSON."""
    async with client.get(f"{_V1}/instance/attributes/") as answer:
        names = (await answer.text()).splitlines()
    async with client.get(f"{_V1}/instance/attributes/?recursive=true") as answer:
        values = await answer.json()
    assert sorted(names) == sorted(values)
    assert values["tpuflex-config"] == '{"a":1}'


async def test_guest_attributes_are_written_and_read(
    client: aiohttp.ClientSession, guest: GuestAttributes
) -> None:
    """What the host puts can be read by it and by the API."""
    path = f"{_V1}/instance/guest-attributes"
    async with client.put(f"{path}/tpuflex/phase", data="READY") as answer:
        assert answer.status == 200
    async with client.get(f"{path}/tpuflex/phase") as answer:
        assert await answer.text() == "READY"
    async with client.get(f"{path}/?recursive=true") as answer:
        assert await answer.json() == {"tpuflex": {"phase": "READY"}}
    assert guest.query(_SPEC.owner, 0, "tpuflex/phase") == [("tpuflex", "phase", "READY")]
    async with client.put(f"{path}/tpuflex/big", data="x" * 262_145) as answer:
        assert answer.status == 400
    for status in (200, 404):
        async with client.delete(f"{path}/tpuflex/phase") as answer:
            assert answer.status == status
    assert guest.query(_SPEC.owner, 0, "") == []


async def test_guest_attributes_must_be_enabled() -> None:
    """Without ``enable-guest-attributes`` the endpoint is closed, as on Compute Engine."""
    spec = dataclasses.replace(_SPEC, metadata={})
    server = _server(spec, GuestAttributes(Store(None)))
    await server.start()
    url = f"http://{server.address}{_V1}/instance/guest-attributes/tpuflex/phase"
    async with aiohttp.ClientSession(headers=_FLAVOR) as session:
        async with session.put(url, data="x") as answer:
            assert answer.status == 403
        async with session.get(url) as answer:
            assert answer.status == 403
    await server.stop()


async def _put(session: aiohttp.ClientSession, value: str) -> int:
    url = f"{_V1}/instance/guest-attributes/tpuflex/report"
    async with session.put(url, data=value) as answer:
        return answer.status


async def test_strict_guest_attributes_are_few(guest: GuestAttributes) -> None:
    """Beyond three queries in a second or ten in a minute, what is written is lost without a
    word; an empty value is refused."""
    server = _server(_SPEC, guest, STRICT)
    await server.start()
    where = f"http://{server.address}"
    async with aiohttp.ClientSession(where, headers=_FLAVOR) as session:
        assert await _put(session, "") == 400
        for number in range(4):
            assert await _put(session, f"a{number}") == 200
        assert guest.query(_SPEC.owner, 0, "") == [("tpuflex", "report", "a2")]
        for number in range(7):
            _CLOCK.advance(1)
            assert await _put(session, f"b{number}") == 200
        assert guest.query(_SPEC.owner, 0, "") == [("tpuflex", "report", "b5")]
        _CLOCK.advance(60)
        assert await _put(session, "c") == 200
        assert guest.query(_SPEC.owner, 0, "") == [("tpuflex", "report", "c")]
    await server.stop()


async def test_a_policy_closes_guest_attributes(guest: GuestAttributes) -> None:
    """Where the organization forbids them, the host cannot report."""
    policies = OrganizationPolicies(constraints={"compute.disableGuestAttributesAccess": True})
    server = _server(_SPEC, guest, Strictness(organization_policies=policies))
    await server.start()
    async with aiohttp.ClientSession(f"http://{server.address}", headers=_FLAVOR) as session:
        assert await _put(session, "x") == 403
    await server.stop()


def test_what_the_service_adds_overrides_the_nodes_metadata() -> None:
    """A node cannot pretend to be another worker through its metadata."""
    spec = dataclasses.replace(_SPEC, metadata={"agent-worker-number": "7"})
    tree = metadata_tree(spec, HostToken("ya29.x", 60))
    instance = tree["instance"]
    assert isinstance(instance, dict)
    attributes = instance["attributes"]
    assert isinstance(attributes, dict)
    assert attributes["agent-worker-number"] == "0"
