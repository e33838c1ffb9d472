"""Stacks as upstreams, on an embedded cloud whose hosts run nothing: tests serve in their place."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.faults.rule import parse_rule
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.server import EmbeddedCloud
from tests.cli.typing import NOON, stack_file
from tests.embedded_cloud.api import AT_ONCE, TOKEN, Api, flex_start
from tests.gateway.running_fleet import running_fleet, until
from tests.gateway.upstream_server import COMPLETED, NEVER, UpstreamServer
from tests.reports import lines_to
from tests.security.certificates import certificate
from tpuflex.errors import TpuflexError
from tpuflex.gateway.config import GatewayConfig
from tpuflex.gateway.discovery import StackDiscovery, has_priorities, in_flight_band
from tpuflex.gateway.render import ServingAddress, serving_addresses
from tpuflex.host.report import HostReport, KvCacheReport
from tpuflex.project import open_project
from tpuflex.settings.gateway import GatewaySettings, InFlightBand
from tpuflex.stack.connection import Connection
from tpuflex.stack.recorded import RecordedEndpoint
from tpuflex.stack.stack import Stack, read_stack

ZONE = "us-east5-a"
#: A port where no host serves anything.
PORT = 8124
NOON_S = NOON.timestamp()


@dataclass
class Rig:
    """A project, and a cloud where its stacks have slices."""

    project: Path
    cloud: EmbeddedCloud

    def stack(self, name: str, more: str = "") -> Stack:
        """A stack with an API key; ``more`` are lines of its file, after ``tpuflex:serving:``."""
        stack = self.read(name, more)
        self.add_secret(stack, "api-key", UpstreamServer.key)
        return stack

    def read(self, name: str, more: str = "") -> Stack:
        """The stack as its file has it with ``more`` in it."""
        text = stack_file(self.project, "dev").read_text()
        text = text.replace("  tpuflex:serving:\n", f"  tpuflex:serving:\n    port: {PORT}\n{more}")
        stack_file(self.project, name).write_text(text)
        return self.reopen(name)

    def reopen(self, name: str) -> Stack:
        return read_stack(open_project(self.project, {}), name)

    def add_secret(self, stack: Stack, role: str, *values: str) -> None:
        """Have versions of a secret, from 1."""
        cloud = self.connect(stack)
        parent, _, secret = cloud.secret(role).rpartition("/")
        body: JsonObject = {"replication": {"automatic": {}}}
        self.api.call("POST", f"v1/{parent}", secretId=secret, body=body)
        for value in values:
            cloud.secrets.add_version(f"{parent}/{secret}", value)

    def connect(self, stack: Stack) -> Connection:
        return Connection(stack, dict(self.cloud.environ()), now=lambda: NOON)

    @property
    def api(self) -> Api:
        return Api(self.cloud.url, project=self.cloud.project, zone=ZONE)

    def request(self, stack: Stack, generation: int = 1) -> str:
        """Ask for a slice of ``stack``, which is granted. Returns the address of its host."""
        name = f"{stack.name}-g{generation}"
        body = flex_start(metadata={}, labels={"tpuflex-owner": stack.names.owner})
        (spec,) = body["tpu"]["nodeSpec"]
        spec |= {"nodeId": name, "parent": f"projects/{self.cloud.project}/locations/{ZONE}"}
        assert self.api.create(name, body).status_code == 200
        self.cloud.advance(1)
        return str(self.api.get(f"nodes/{name}")["networkEndpoints"][0]["ipAddress"])

    def delete(self, stack: Stack, generation: int = 1) -> None:
        name = f"{stack.name}-g{generation}"
        assert self.api.tpu("DELETE", f"queuedResources/{name}", force="true").status_code == 200
        self.cloud.advance(60)

    def report(self, stack: Stack, phase: str, generation: int = 1) -> None:
        """Have its host be in that phase of its boot."""
        self._write(stack, generation, "report", {"phase": phase})

    def deny(self, path: str) -> None:
        """Refuse what has that in its path."""
        effect: JsonObject = {
            "kind": "answer",
            "status": 403,
            "message": "denied",
            "code": "PERMISSION_DENIED",
        }
        rule: JsonObject = {"where": {"method": "GET", "path": path}, "times": 0, "effect": effect}
        self.cloud.cloud.faults.book.add(parse_rule(rule))

    def answered(self, method: str, status: int = 200) -> int:
        """How often the cloud has answered so."""
        calls = self.cloud.cloud.history.entries()
        return sum(call["status"] == status and method in str(call["method_id"]) for call in calls)

    def say(self, stack: Stack, phase: str = "serving", generation: int = 1, **more: Any) -> None:
        """Have its host say that from READY on."""
        self._write(stack, generation, "serving", {"phase": phase, "at": NOON_S, **more})

    def _write(self, stack: Stack, generation: int, key: str, document: dict[str, Any]) -> None:
        node = f"projects/{self.cloud.project}/locations/{ZONE}/nodes/{stack.name}-g{generation}"
        text = json.dumps(document)
        GuestAttributes(self.cloud.store).put(node, 0, "tpuflex", key, text)


@pytest.fixture
def rig(project: Path, tmp_path: Path) -> Iterator[Rig]:
    with EmbeddedCloud(
        tmp_path / "emulator",
        project="tpuflex-dev",
        token=TOKEN,
        stub_hosts=True,
        capacity=AT_ONCE,
        clock=ManualClock(NOON_S),
    ) as cloud:
        yield Rig(project, cloud)


def serving(
    address: str, tls: ssl.SSLContext | None = None, key: str = UpstreamServer.key
) -> AbstractAsyncContextManager[UpstreamServer]:
    """A server at the host that has ``address``."""
    server = UpstreamServer(key=key)
    server.answers["/tpuflex/requests"] = ['{"in_flight": 0, "closed": false}']
    return server.running(tls, address, PORT)


async def test_a_slice_that_serves_is_an_upstream(rig: Rig, tmp_path: Path) -> None:
    """With the stack's key, the band of its memory plan, and the end of its run; draining as its
    guard says."""
    stack = rig.stack("a")
    address = rig.request(stack)
    rig.say(stack, ends_at=NOON_S + 3600, drains_at=NOON_S + 3000)
    async with (
        serving(address) as server,
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        there = running.named()["a/a-g1"]

        assert there.open
        assert there.url == f"http://{address}:{PORT}/v1"
        assert there.ends == 3600
        assert (there.limit.least, there.limit.most) == (8, 8)
        assert running.fleet.models() == (stack.settings.model.name,)
        assert list(running.fleet.pools(stack.settings.model.name)) == [(there,)]

        server.answers["/tpuflex/requests"] = ['{"in_flight": 0, "closed": true}']
        await running.until(lambda: there.draining)
        server.answers["/tpuflex/requests"] = ['{"in_flight": 0, "closed": false}']
        await running.until(lambda: not there.draining)


@pytest.mark.parametrize("command", ["tpuflex up", "pulumi up"])
async def test_a_stack_that_is_down(rig: Rig, tmp_path: Path, command: str) -> None:
    """What nothing serves is said, with the command that changes it."""
    stack = rig.stack("a")
    if command == "pulumi up":  # a program of the user's own deploys it
        recorded = RecordedEndpoint(
            *("serve", stack.settings, stack.names),
            alone=True,
            by_command=False,
            secrets={},
            state_ids=frozenset(),
        )
        stack = replace(stack, recorded=recorded)
    async with running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running:
        down = f"Stack a has no slice. Next: {command} --stack a"
        assert running.lines == [f"Nothing serves {stack.settings.model.name} now. {down}"]
        assert running.fleet.unseen_stacks() == {"a": down}


async def test_a_renewal(rig: Rig, tmp_path: Path) -> None:
    """Both slices are upstreams. The one that drains gets nothing new; that is gone keeps what it
    has in flight, and its connections, until that ends."""
    stack = rig.stack("a")
    old = rig.request(stack)
    async with (
        serving(old),
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        first = running.named()["a/a-g1"]
        async with serving(rig.request(stack, 2)):
            await running.until(lambda: len(running.named()) == 2)
            second = running.named()["a/a-g2"]
            await running.until(lambda: second.open)

            rig.say(stack, "draining", ends_at=NOON_S + 60)
            await running.until(lambda: first.draining)
            assert first.ends is not None
            assert not second.draining

            first.in_flight = 1
            connection = running.fleet.connection(first)
            rig.delete(stack)
            await running.until(lambda: "a/a-g1 is gone." in running.lines)
            assert running.fleet.connection(first) is connection
            assert not connection.session.closed

            first.in_flight = 0
            await running.until(lambda: list(running.named()) == ["a/a-g2"])
            await running.until(lambda: connection.session.closed)


async def test_a_slice_that_fails_may_drain(rig: Rig, tmp_path: Path) -> None:
    """Which its guard says: those who would have it wait for its successor until the
    guard was asked; and what it still has may end, though it completes nothing new."""
    stack = rig.stack("a")
    open_, closed = (json.dumps({"in_flight": 0, "closed": each}) for each in (False, True))
    async with (
        serving(rig.request(stack)) as server,
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        there = running.one()
        server.answers |= {"/v1/completions": [503, COMPLETED], "/tpuflex/requests": [open_]}
        running.fleet.suspect(there, "it has answered with status 503")
        assert (there.open, there.draining) == (False, True)
        await until(lambda: not there.draining)
        assert not there.open
        await running.until(lambda: there.open)

        server.answers |= {"/v1/completions": [503], "/tpuflex/requests": [closed]}
        assert await running.fleet.doubt(there)
        assert (there.open, there.draining) == (True, True)


async def test_a_slice_that_is_frozen_is_not_taken_for_one_that_drains(
    rig: Rig, tmp_path: Path
) -> None:
    """Its guard answers while its engine does not: nobody has to wait for a successor until a
    completion has taken too long."""
    stack = rig.stack("a")
    async with (
        serving(rig.request(stack)) as server,
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        there = running.one()
        server.answers["/v1/completions"] = [NEVER]
        running.fleet.suspect(there, "it does not answer in time")
        await asyncio.wait_for(until(lambda: not there.draining), 5)
        assert not there.open


async def test_a_key_that_is_gone(rig: Rig, tmp_path: Path) -> None:
    """The command that makes it again is about this stack, which is one of several."""
    stack = rig.read("a")
    async with (
        serving(rig.request(stack)),
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        assert "tpuflex up --stack a" in running.one().why


async def test_a_successor_takes_over_at_once(rig: Rig, tmp_path: Path) -> None:
    """The way to a slice is there while its host boots. As soon as another one drains it is looked
    whether the host is READY, before which it is asked for nothing."""
    stack = rig.stack("a")
    async with (
        serving(rig.request(stack)) as server,
        serving(rig.request(stack, 2)) as successor,
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        rig.report(stack, "warmup", 2)
        await running.until(lambda: "a/a-g2 is closed: its host boots." in running.lines)
        first, second = running.named()["a/a-g1"], running.named()["a/a-g2"]
        assert not second.open
        await until(lambda: running.clock.waiting == 3)  # both slices, and the next look at them

        successor.asked.clear()
        await running.clock.move(1)
        assert successor.asked == []
        await until(lambda: running.clock.waiting == 3)
        rig.report(stack, "READY", 2)
        server.answers["/tpuflex/requests"] = ['{"in_flight": 0, "closed": true}']
        await running.until(lambda: second.open, within=3, waiting=3)
        assert first.draining


async def test_a_cloud_that_cannot_be_asked(rig: Rig, tmp_path: Path) -> None:
    """Its stack's upstreams stay as they are, which is said once."""
    stack = rig.stack("a")
    async with (
        serving(rig.request(stack)),
        running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running,
    ):
        rig.deny("queuedResources")
        await running.until(lambda: rig.answered("queuedResources.list", 403) > 3)

        assert running.one().open
        assert len(running.lines) == 2
        assert running.lines[1].startswith("a: its slices cannot be read: GET ")


async def test_a_stack_that_cannot_be_reached_holds_up_no_other(rig: Rig, tmp_path: Path) -> None:
    """Whatever goes wrong with it."""
    one, other = rig.stack("a"), rig.stack("b")

    def connect(stack: Stack) -> Connection:
        if stack is other:
            raise ZeroDivisionError("a bug")
        return rig.connect(stack)

    settings = {"a": {"stack": "a"}, "b": {"stack": "b"}}
    async with (
        serving(rig.request(one)),
        running_fleet(
            tmp_path, stacks={"a": one, "b": other}, connect=connect, upstreams=settings
        ) as running,
    ):
        assert running.one().open
        assert any("b: its slices cannot be read" in line for line in running.lines)


async def test_a_stack_file_that_changes(rig: Rig, tmp_path: Path) -> None:
    """A server that is started again with another key, and with a certificate, is an upstream once
    the stack's file says so."""
    stack = rig.stack("a")
    address = rig.request(stack)
    pem, key = certificate()
    rig.add_secret(stack, "api-key", "sk-next")
    rig.add_secret(stack, "tls-certificate", pem + key)
    (tmp_path / "pem").write_text(pem + key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(tmp_path / "pem")
    async with running_fleet(
        tmp_path,
        stacks={"a": stack},
        connect=rig.connect,
        reopen=lambda stack: rig.reopen(stack.name),
    ) as running:
        async with serving(address):
            await running.until(lambda: running.one().open)
        async with serving(address, tls, "sk-next"):
            await running.until(lambda: not running.one().open)
            secrets = "  tpuflex:secrets:\n    api_key_version: 2\n    tls_certificate_version: 1\n"
            file = stack_file(rig.project, "a")
            file.write_text(file.read_text() + secrets)

            await running.until(lambda: any(each.open for each in running.fleet.upstreams()))
            assert running.one().url == f"https://{address}:{PORT}/v1"


async def test_one_that_is_down_comes_up(rig: Rig, tmp_path: Path) -> None:
    """A slice is an upstream once its host has said READY and has completed a token; that it drains
    as its run nears its end is known without a word of it."""
    stack = rig.stack("a")
    async with running_fleet(tmp_path, stacks={"a": stack}, connect=rig.connect) as running:
        assert list(running.named()) == []
        assert list(running.fleet.pools(stack.settings.model.name)) == [()]

        address = rig.request(stack)
        await running.until(lambda: bool(running.named()))
        assert not running.one().open
        async with serving(address):
            await running.until(lambda: running.one().open)

            rig.say(stack, drains_at=NOON_S - 1, ends_at=NOON_S + 60)
            await running.until(lambda: running.one().draining)


def test_the_key_of_a_cloud_that_was_started_again(rig: Rig) -> None:
    """It is asked for where the cloud is now, though the way to the slice is an old one."""
    stack = rig.stack("a")
    rig.request(stack)
    connected = list[Connection]()

    def connect(stack: Stack) -> Connection:
        connected.append(rig.connect(stack))
        return connected[-1]

    discovery = StackDiscovery(stack, connect, reopen=lambda stack: stack)
    [found] = discovery.look().slices.values()
    with discovery.way(found.status, lambda _line: None) as way:
        assert way.key() == UpstreamServer.key
        rig.deny("queuedResources")
        with pytest.raises(TpuflexError):
            discovery.look()
        assert way.key() == UpstreamServer.key
    assert len(connected) == 2


def test_where_slices_serve(rig: Rig, tmp_path: Path) -> None:
    """For programs that find servers by a file: each slice at its own address, less those that
    drain."""
    stack = rig.stack("a")
    address = rig.request(stack)
    rig.request(stack, 2)
    rig.say(stack, "draining", generation=2)
    config = GatewayConfig(GatewaySettings(), "Pulumi.a.yaml", tmp_path, {"a": stack})
    said = list[str]()

    first = ServingAddress("a-a-g1", "a", f"http://{address}:{PORT}/v1")
    assert serving_addresses(config, rig.connect, lines_to(said)) == (first,)
    assert said == []


def test_the_band_of_a_stack(rig: Rig) -> None:
    """From what its KV cache holds at full length, as its host has counted it, to max_num_seqs; and
    whether its scheduler heeds priorities, from its flags."""
    stack = rig.stack("a", "    extra_args: [--scheduling-policy, priority]\n")
    settings = stack.settings
    counted = HostReport(kv_cache=KvCacheReport(16, 100, "auto", tokens=1600))

    assert in_flight_band(settings, None) == InFlightBand(least=8, most=8)
    assert in_flight_band(settings, counted) == InFlightBand(least=3, most=8)
    assert has_priorities(settings)
    assert not has_priorities(rig.stack("b").settings)
