"""The emulated IAP of one cloud: started when it is first asked for."""

from __future__ import annotations

import asyncio
import datetime
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from embedded_cloud.access import Access
from embedded_cloud.compute.state import Resources
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.hosts.spec import HostSpec
from embedded_cloud.hosts.ssh_key import host_key, key_purpose, public_text
from embedded_cloud.iap.certificate import CERTIFICATE, server_context
from embedded_cloud.iap.door import RELAY, Door
from embedded_cloud.iap.relay import Relay
from embedded_cloud.iap.targets import Targets
from embedded_cloud.oslogin import LoginProfiles
from embedded_cloud.peer import owners_door
from embedded_cloud.tpu.state import TpuState

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
