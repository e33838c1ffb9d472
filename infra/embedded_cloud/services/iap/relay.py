"""The relay: WebSockets of clients, and the sessions that they carry.

https://cloud.google.com/firewall/docs/firewalls#priority_order_for_firewall_rules
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from embedded_cloud.core.access import Access
from embedded_cloud.core.errors import CloudError
from embedded_cloud.core.json_types import JsonObject, child, children, number, text, texts
from embedded_cloud.machines.hosts.spec import HostSpec
from embedded_cloud.machines.hosts.ssh_server import host_key, key_purpose
from embedded_cloud.services.compute.paths import relative
from embedded_cloud.services.compute.state import Resources
from embedded_cloud.services.iap.session import (
    MOST_DATA,
    SUBPROTOCOL,
    Close,
    Session,
    connected,
    reconnected,
    refuse,
)
from embedded_cloud.services.oslogin import LoginProfiles
from embedded_cloud.services.tpu.state import TpuState
from pulumi_plugin.peer import require_owner

_TCP = frozenset({"tcp", "6", "all"})


@dataclass(frozen=True, slots=True)
class Connection:
    """A TCP connection to a host.

    Attributes:
        source: the range that it comes from.
        port: the port that it is for.
        network: path of the host's network, from ``projects/`` on.
        tags: the host's network tags.
        service_account: the host's service account.
    """

    source: str
    port: int
    network: str
    tags: Collection[str]
    service_account: str


def lets_in(rules: Iterable[JsonObject], connection: Connection) -> bool:
    """Whether the rule that decides allows ``connection``: of those that match the one of the
    lowest priority number, a denying one before an allowing one. Without any it is denied."""
    matching = [rule for rule in rules if _matches(rule, connection)]
    first = min(
        matching, key=lambda rule: (number(rule, "priority", 1000), "allowed" in rule), default=None
    )
    return first is not None and "allowed" in first


def _matches(rule: JsonObject, connection: Connection) -> bool:
    project = connection.network.split("/")[1]
    return (
        rule.get("disabled") is not True
        and text(rule, "direction", "INGRESS") == "INGRESS"
        and relative(text(rule, "network"), project) == connection.network
        and _targets(rule, connection)
        and any(_covers(each, connection.source) for each in texts(rule, "sourceRanges"))
        and any(
            _has_port(each, connection.port)
            for key in ("allowed", "denied")
            for each in children(rule, key)
        )
    )


def _targets(rule: JsonObject, connection: Connection) -> bool:
    tags, accounts = texts(rule, "targetTags"), texts(rule, "targetServiceAccounts")
    if not tags and not accounts:
        return True
    return bool(set(tags) & set(connection.tags)) or connection.service_account in accounts


def _covers(cidr: str, source: str) -> bool:
    wide, narrow = ipaddress.ip_network(cidr), ipaddress.ip_network(source)
    if isinstance(wide, ipaddress.IPv6Network) or isinstance(narrow, ipaddress.IPv6Network):
        return False
    return narrow.subnet_of(wide)


def _has_port(entry: JsonObject, port: int) -> bool:
    if text(entry, "IPProtocol").lower() not in _TCP:
        return False
    ports = texts(entry, "ports")
    return not ports or any(_in(each, port) for each in ports)


def _in(ports: str, port: int) -> bool:
    first, _, last = ports.partition("-")
    return int(first) <= port <= int(last or first)


#: Where IAP's connections come from (https://cloud.google.com/iap/docs/using-tcp-forwarding).
IAP_RANGE = "35.235.240.0/20"
SSH_PORT = 22
#: The rule for SSH that a project's first network has
#: (https://cloud.google.com/firewall/docs/firewalls#more_rules_default_vpc).
_DEFAULT_ALLOW_SSH: JsonObject = {
    "network": "global/networks/default",
    "priority": 65534,
    "sourceRanges": ["0.0.0.0/0"],
    "allowed": [{"IPProtocol": "tcp", "ports": ["22"]}],
}


@dataclass(frozen=True, slots=True)
class Target:
    """A port of a virtual machine.

    Attributes:
        project, zone: where it is.
        instance: its name, which for a host of a TPU node is its hostname.
        port: the port.
    """

    project: str
    zone: str
    instance: str
    port: int

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> Target | None:
        """What the query of a request to connect names; None where it names nothing."""
        project, zone, instance = (query.get(key, "") for key in ("project", "zone", "instance"))
        port = query.get("port", "")
        if not (project and zone and instance and port.isdecimal()):
            return None
        return cls(project, zone, instance, int(port))


class Targets:
    """The hosts, and the firewalls in front of them.

    Args:
        tpu: the TPU service.
        resources: Compute Engine's, for firewall rules.
    """

    def __init__(self, tpu: TpuState, resources: Resources) -> None:
        self._tpu = tpu
        self._resources = resources

    def find(self, target: Target) -> HostSpec | Close:
        """The host that ``target`` names, or how the relay refuses."""
        for spec in self._tpu.desired_hosts():
            if (spec.project, spec.zone) == (target.project, target.zone) and (
                spec.name == target.instance
            ):
                return spec if self._lets_in(spec, target.port) else Close.NO_BACKEND
        return Close.LOOKUP_FAILED

    def private_address(self, spec: HostSpec) -> str:
        """The address of a host that clients know it by."""
        node = self._tpu.nodes.find(spec.owner)
        return spec.address if node is None else self._tpu.addresses(node)[spec.worker]

    def _lets_in(self, spec: HostSpec, port: int) -> bool:
        node = self._tpu.nodes.find(spec.owner)
        config = child({} if node is None else node.spec, "networkConfig")
        named = text(config, "network") or "global/networks/default"
        network = str(relative(named, spec.project))
        if "/" not in network:
            network = f"projects/{spec.project}/global/networks/{network}"
        rules = self._resources.all("firewalls", f"projects/{spec.project}/")
        if network.endswith("/networks/default") and not self._resources.exists(network):
            rules.append(_DEFAULT_ALLOW_SSH)
        tags = texts({} if node is None else node.spec, "tags")
        connection = Connection(IAP_RANGE, port, network, tags, spec.service_account)
        return lets_in(rules, connection)


#: The permission of roles/iap.tunnelResourceAccessor.
PERMISSION = "iap.tunnelInstances.accessViaIAP"
#: Seconds for which a session waits for its client to connect again (gcloud tries for 15 minutes).
_KEPT_S = 60.0
#: Seconds for a WebSocket that broke off to be noticed.
_FREE_WITHIN_S = 5.0
#: Seconds for a host to accept a connection.
_ACCEPTED_WITHIN_S = 5.0

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Relay:
    """Handlers of ``/v4/connect`` and ``/v4/reconnect``.

    Args:
        access: who may call.
        targets: the hosts that may be reached.
        profiles: whose SSH keys the hosts take.
        hosts: the directory of the hosts' directories.
        missing: the permissions that the caller lacks.
    """

    def __init__(
        self,
        access: Access,
        targets: Targets,
        profiles: LoginProfiles,
        hosts: Path,
        missing: Callable[[], Collection[str]],
    ) -> None:
        self._access = access
        self._targets = targets
        self._profiles = profiles
        self._hosts = hosts
        self._missing = missing
        self._sessions: dict[str, Session] = {}
        self._ends: dict[str, asyncio.Task[None]] = {}

    async def connect(self, request: web.Request) -> web.StreamResponse:
        """A new session with a host."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        client = await _open(request)
        if PERMISSION in self._missing():
            await refuse(client, Close.NOT_AUTHORIZED)
            return client
        target = Target.from_query(request.query)
        found = Close.LOOKUP_FAILED if target is None else self._targets.find(target)
        if target is None or isinstance(found, Close):
            await refuse(client, found if isinstance(found, Close) else Close.LOOKUP_FAILED)
            return client
        try:
            streams = await self._backend(found, target.port)
        except OSError:
            await refuse(client, Close.NO_BACKEND)
            return client
        session = Session(secrets.token_urlsafe(16), *streams)
        self._sessions[session.sid] = session
        await client.send_bytes(connected(session.sid))
        await self._serve(client, session, 0)
        return client

    async def reconnect(self, request: web.Request) -> web.StreamResponse:
        """A client whose WebSocket broke off."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        client = await _open(request)
        session = self._sessions.get(request.query.get("sid", ""))
        acknowledged = request.query.get("ack", "")
        if session is None:
            await refuse(client, Close.SID_UNKNOWN)
        elif not await session.is_free(within=_FREE_WITHIN_S):
            await refuse(client, Close.SID_IN_USE)
        elif not acknowledged.isdecimal() or not session.has_sent(int(acknowledged)):
            await refuse(client, Close.BAD_ACK)
        else:
            if (end := self._ends.pop(session.sid, None)) is not None:
                end.cancel()
            await client.send_bytes(reconnected(session.received))
            await self._serve(client, session, int(acknowledged))
        return client

    async def close(self) -> None:
        """End every session."""
        for end in self._ends.values():
            end.cancel()
        sessions = list(self._sessions.values())
        self._sessions.clear()
        await asyncio.gather(*(session.end() for session in sessions), return_exceptions=True)

    def _refusal(self, request: web.Request) -> web.Response | None:
        try:
            self._access.check(request.headers.get("Authorization", ""), PERMISSION)
        except CloudError as error:
            return web.json_response(error.body(), status=error.http_status)
        return None

    async def _serve(self, client: web.WebSocketResponse, session: Session, start: int) -> None:
        over = True
        try:
            over = await session.serve(client, start)
        except ConnectionError:
            over = False
        finally:
            if over:
                self._sessions.pop(session.sid, None)
                await session.end()
            else:
                self._ends[session.sid] = asyncio.create_task(self._end_later(session))

    async def _end_later(self, session: Session) -> None:
        await asyncio.sleep(_KEPT_S)
        self._ends.pop(session.sid, None)
        self._sessions.pop(session.sid, None)
        await session.end()

    async def _backend(self, spec: HostSpec, port: int) -> _Streams:
        """A connection to ``port`` of a host.

        Raises:
            OSError: no process of this user listens there.
        """
        if port != SSH_PORT:
            return await own_connection(spec.address, port)
        # Slow to import, and not needed by a cloud whose hosts are on loopback.
        from embedded_cloud.machines.hosts.ssh_server import HostSsh

        # The SSH server listens nowhere: this is the only way to it.
        ours, theirs = socket.socketpair()
        server = HostSsh(
            spec,
            address=self._targets.private_address(spec),
            root=self._hosts / spec.key / "root",
            keys_of=self._profiles.keys_of,
            key=host_key(self._access.secret(key_purpose(spec))),
            missing=self._missing(),
        )
        server.serve(theirs)
        return await asyncio.open_connection(sock=ours)


async def own_connection(address: str, port: int) -> _Streams:
    """A connection to a process of this user at a loopback address.

    Raises:
        OSError: there is none.
    """
    reader, writer = await asyncio.open_connection(address, port)
    connection = writer.get_extra_info("socket")
    try:
        await asyncio.to_thread(require_owner, connection, within=_ACCEPTED_WITHIN_S)
    except OSError:
        writer.close()
        raise
    return reader, writer


async def _open(request: web.Request) -> web.WebSocketResponse:
    client = web.WebSocketResponse(
        protocols=(SUBPROTOCOL,), compress=False, max_msg_size=2 * MOST_DATA
    )
    await client.prepare(request)
    return client
