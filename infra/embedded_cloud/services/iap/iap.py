"""The emulated IAP of one cloud: started when it is first asked for.

gcloud is sent here by ``https_proxy``, so that the very command that goes to Google's relay comes
here. Only the owner's processes get an answer, by the kernel's word, and only `CONNECT` to the
relay: the token that they send within must not reach anybody else.
"""

from __future__ import annotations

import asyncio
import datetime
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from embedded_cloud.core.access import Access
from embedded_cloud.core.peer import owners_door
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.machines.hosts.spec import HostSpec
from embedded_cloud.machines.hosts.ssh_server import host_key, key_purpose, public_text
from embedded_cloud.services.compute.state import Resources
from embedded_cloud.services.iap.relay import Relay, Targets
from embedded_cloud.services.oslogin import LoginProfiles
from embedded_cloud.services.tpu.state import TpuState
from pulumi_plugin.peer import is_own_connection
from tpuflex.files.trusted import own_directory, write_private

#: Its file, which gcloud is told to trust, below the emulator's state directory.
CERTIFICATE = "iap/certificate.pem"
_KEY = "iap/key.pem"
_LIFETIME = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(days=1)


def server_context(state_dir: Path, name: str, now: datetime.datetime) -> ssl.SSLContext:
    """TLS for a server called ``name``, with a new certificate of its own: only a
    client that is told of it takes it for that server."""
    own_directory(state_dir / "iap")
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    write_private(state_dir / CERTIFICATE, pem.decode())
    write_private(
        state_dir / _KEY,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(state_dir / CERTIFICATE, state_dir / _KEY)
    return context


#: The relay's name, as gcloud has it (`iap_tunnel_websocket_utils.URL_HOST`).
RELAY = "tunnel.cloudproxy.app"
_TARGET = f"{RELAY}:443".encode()
_LONGEST_HEAD = 8 * 1024
#: Seconds for a request line, and for the handshake of TLS.
_WITHIN_S = 10.0


class Door(asyncio.Protocol):
    """One connection to the door.

    Args:
        server: makes the protocol that serves what comes within TLS.
        context: TLS of the relay.
    """

    def __init__(self, server: Callable[[], asyncio.Protocol], context: ssl.SSLContext) -> None:
        self._server = server
        self._context = context
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None
        self._timeout: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected: is it of this user?"""
        if not isinstance(transport, asyncio.Transport):
            raise TypeError("the door needs a stream")
        self._transport = transport
        if not is_own_connection(transport.get_extra_info("socket")):
            self._refuse(transport)
            return
        loop = asyncio.get_running_loop()
        self._timeout = loop.call_later(_WITHIN_S, transport.abort)

    def data_received(self, data: bytes) -> None:
        """A part of the request."""
        if self._transport is None or self._transport.is_closing() or self._task is not None:
            return
        self._head += data
        head, end, rest = self._head.partition(b"\r\n\r\n")
        if len(self._head) > _LONGEST_HEAD:
            self._refuse(self._transport)
        elif end:
            method, _, target = head.partition(b"\r\n")[0].partition(b" ")
            if method != b"CONNECT" or target.partition(b" ")[0] != _TARGET or rest:
                self._refuse(self._transport)
                return
            self._task = asyncio.create_task(self._let_in(self._transport))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone before it was let in."""
        del exc
        if self._timeout is not None:
            self._timeout.cancel()

    async def _let_in(self, transport: asyncio.Transport) -> None:
        if self._timeout is not None:
            self._timeout.cancel()
        transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        served = self._server()
        loop = asyncio.get_running_loop()
        try:
            within = await loop.start_tls(
                transport,
                served,
                self._context,
                server_side=True,
                ssl_handshake_timeout=_WITHIN_S,
            )
        except (OSError, ssl.SSLError):
            transport.abort()
            return
        if within is not None:
            served.connection_made(within)

    @staticmethod
    def _refuse(transport: asyncio.Transport) -> None:
        transport.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        transport.close()


#: What gcloud says instead of a web page's origin (`iap_tunnel_websocket_helper.py`).
_GCLOUD = frozenset({"bot:iap-tunneler"})
#: The guest agent's namespace for the keys of the host. Where a TPU VM has its ``hostname`` is not
#: documented; gcloud looks for the key in any namespace.
_NAMESPACE = "hostkeys"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the door is.

    Attributes:
        port: its port on 127.0.0.1.
        certificate: file of the certificate to trust within.
    """

    port: int
    certificate: Path


class Iap:
    """The door, what is behind it, and what hosts publish for clients that come through it.

    Args:
        state_dir: the emulator's state directory.
        access: who may call.
        tpu: the TPU service.
        resources: Compute Engine's.
    """

    def __init__(
        self, state_dir: Path, access: Access, tpu: TpuState, resources: Resources
    ) -> None:
        self._state_dir = state_dir
        self._access = access
        self._guest = GuestAttributes(resources.store)
        profiles = LoginProfiles(resources.store)
        self._relay = Relay(
            access,
            Targets(tpu, resources),
            profiles,
            state_dir.resolve() / "hosts",
            lambda: resources.strictness().permissions.missing,
        )
        self._published: set[tuple[str, int, str]] = set()
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._starting = asyncio.Lock()

    async def address(self) -> Address:
        """Where the door is; it is opened if it is not."""
        async with self._starting:
            if self._server is None:
                self._server = await self._open()
        port = int(self._server.sockets[0].getsockname()[1])
        return Address(port, self._state_dir.resolve() / CERTIFICATE)

    def publish(self, specs: list[HostSpec]) -> None:
        """Have each new host publish its name and the key of its SSH server, as guest agents do."""
        for spec in specs:
            identity = (spec.owner, spec.worker, spec.boot_id)
            if identity in self._published or not spec.has_guest_attributes:
                continue
            self._published.add(identity)
            key = host_key(self._access.secret(key_purpose(spec)))
            for name, value in (("hostname", spec.name), ("ssh-ed25519", public_text(key))):
                self._guest.put(spec.owner, spec.worker, _NAMESPACE, name, value)

    async def close(self) -> None:
        """Close the door, and end what came through it."""
        if self._server is not None:
            self._server.close()
        await self._relay.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _open(self) -> asyncio.Server:
        app = web.Application(middlewares=[owners_door(frozenset({RELAY}), origins=_GCLOUD)])
        app.router.add_get("/v4/connect", self._relay.connect)
        app.router.add_get("/v4/reconnect", self._relay.reconnect)
        self._runner = web.AppRunner(
            app, handle_signals=False, access_log=None, shutdown_timeout=0.5
        )
        await self._runner.setup()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner has no server after its setup")
        now = datetime.datetime.now(datetime.UTC)
        context = await asyncio.to_thread(server_context, self._state_dir, RELAY, now)
        loop = asyncio.get_running_loop()
        return await loop.create_server(lambda: Door(server, context), "127.0.0.1", 0)
