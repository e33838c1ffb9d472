"""Keeps the emulated hosts in line with the nodes that are READY.

A startup script takes longer than everything else together. Tests of what happens around it
(faults, kills, recovery) use stub hosts, and do not claim that anything was served.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.store import Store
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes, forbidden
from embedded_cloud.machines.hosts.host import Host, comes_up, power_off
from embedded_cloud.machines.hosts.spec import HostSpec

#: Where the startup script reports.
_NAMESPACE, _KEY = "tpuflex", "report"
_DETAIL = "stub host: nothing was run"
#: Its answers: to every question, as a stream of one event, and to every beginning of a text.
_ANSWERS = {
    b"/v1/chat/completions": (
        b'data: {"choices": [{"index": 0, "finish_reason": "stop",'
        b' "delta": {"content": "The capital of France is Paris."}}],'
        b' "usage": {"completion_tokens": 8}}\n\ndata: [DONE]\n\n'
    ),
    b"/v1/completions": (
        b'{"choices": [{"index": 0, "finish_reason": "length", "text": " Paris"}],'
        b' "usage": {"completion_tokens": 1}}'
    ),
}
#: The metadata key that names the port of the server.
_CONFIG = "tpuflex-config"


class StubHost:
    """The stand-in of a host.

    Args:
        spec: what the host would be.
        guest: where guest attributes go.
        clock: the cloud's time.
        strictness: which of Google's refusals are imitated now.
    """

    def __init__(
        self,
        spec: HostSpec,
        *,
        guest: GuestAttributes,
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self.spec = spec
        self._guest = guest
        self._clock = clock
        self._strictness = strictness
        self._server: asyncio.Server | None = None

    async def boot(self) -> None:
        """Report READY, if it comes up at all, and answer where its server would."""
        strictness = self._strictness()
        if not comes_up(self.spec, strictness):
            return
        if (port := _port(self.spec)) is not None:
            self._server = await asyncio.start_server(_answer, self.spec.address, port)
        if forbidden(strictness):
            return
        timeline = json.dumps({"READY": self._clock.now()})
        report = json.dumps({"phase": "READY", "detail": _DETAIL, "timeline": timeline})
        self._guest.put(self.spec.owner, self.spec.worker, _NAMESPACE, _KEY, report)

    def update(self, spec: HostSpec) -> None:
        """Take over what has changed of its owner."""
        self.spec = spec

    async def power_off(self, *, erase: bool) -> None:
        """There is no disk, and no process."""
        del erase
        if self._server is not None:
            self._server.close()

    def describe(self) -> JsonObject:
        """The host as the control API shows it."""
        owner = self.spec.owner
        return {"key": self.spec.key, "owner": owner, "node": owner, "stub": True}


def _port(spec: HostSpec) -> int | None:
    """The port of the server of a host; None where no server was asked for."""
    try:
        return int(json.loads(spec.metadata[_CONFIG])["serving"]["port"])
    except (KeyError, TypeError, ValueError):
        return None


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer one request with 200, whoever asks for what, and a question with one sentence."""
    with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError):
        head = await reader.readuntil(b"\r\n\r\n")
        if length := re.search(rb"(?i)^content-length: *(\d{1,6})\r$", head, re.MULTILINE):
            await reader.readexactly(int(length[1]))
        body = _ANSWERS.get(head.partition(b" ")[2].partition(b" ")[0], b"")
        length_of_it = b"Content-Length: %d\r\n" % len(body)
        writer.write(b"HTTP/1.1 200 OK\r\n" + length_of_it + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
    writer.close()


_log = logging.getLogger(__name__)


class HostSupervisor:
    """Launches, reboots and ends hosts.

    Args:
        state_dir: the emulator's state directory; hosts live in ``hosts/`` below.
        store: the cloud's memory (for guest attributes).
        base_url: address of the emulator.
        issue: makes an access token of the service account of a host, by its key, that lives for so
            many seconds.
        clock: the cloud's time.
        strictness: which of Google's refusals are imitated now.
        enabled: whether hosts are launched at all.
        stubs: whether hosts run nothing and are READY at once (:class:`StubHost`).
    """

    def __init__(
        self,
        state_dir: Path,
        store: Store,
        *,
        base_url: Callable[[], str],
        issue: Callable[[str, float], str],
        clock: Clock,
        strictness: Callable[[], Strictness],
        enabled: bool,
        stubs: bool = False,
    ) -> None:
        self._directory = state_dir.resolve() / "hosts"
        self._home = state_dir.resolve().parent
        self._base_url = base_url
        self._issue = issue
        self._enabled = enabled
        self._guest = GuestAttributes(store)
        self._clock = clock
        self._strictness = strictness
        self._stubs = stubs
        self._hosts: dict[str, Host | StubHost] = {}
        self._lock = asyncio.Lock()
        self._woken = asyncio.Event()
        if enabled:
            self._end_leftovers()

    def wake(self) -> None:
        """Nodes have changed: reconcile at once instead of at the next tick."""
        self._woken.set()

    async def wait_for_wake(self, timeout_s: float) -> None:
        """Return when woken, at the latest after ``timeout_s``."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._woken.wait(), timeout_s)
        self._woken.clear()

    async def reconcile(self, desired: Callable[[], Sequence[HostSpec]]) -> None:
        """End hosts that should not run (any more, or in this boot); launch those that are missing;
        the others learn what has changed.

        Args:
            desired: the hosts that should be running; asked once no other change is under way.
        """
        async with self._lock:
            if not self._enabled:
                return
            specs = {spec.key: spec for spec in desired()}
            for key, host in list(self._hosts.items()):
                spec = specs.get(key)
                if spec is None or spec.boot_id != host.spec.boot_id:
                    del self._hosts[key]
                    await host.power_off(erase=spec is None)
                elif spec != host.spec:
                    host.update(spec)
            for key, spec in specs.items():
                if key not in self._hosts:
                    await self._boot(spec)

    async def shut_down(self) -> None:
        """End all hosts, for good; their disks stay, so that they can boot again."""
        async with self._lock:
            self._enabled = False
            await self._end_all()

    async def forget(self) -> None:
        """End all hosts and remove every host directory, serial logs included."""
        async with self._lock:
            await self._end_all()
            shutil.rmtree(self._directory, ignore_errors=True)

    def describe(self) -> list[JsonObject]:
        """The running hosts as the control API shows them."""
        # Asked by other threads, too, while hosts come and go.
        return [host.describe() for host in list(self._hosts.values())]

    async def _end_all(self) -> None:
        hosts = list(self._hosts.values())
        self._hosts.clear()
        await asyncio.gather(*(host.power_off(erase=False) for host in hosts))

    async def _boot(self, spec: HostSpec) -> None:
        host = self._host(spec)
        try:
            await host.boot()
        except OSError as error:
            # Without its address or its disk a host cannot come up; the next tick tries again.
            _log.warning("host %s did not boot: %s", spec.key, error)
            await host.power_off(erase=False)
            return
        self._hosts[spec.key] = host

    def _host(self, spec: HostSpec) -> Host | StubHost:
        if self._stubs:
            return StubHost(spec, guest=self._guest, clock=self._clock, strictness=self._strictness)
        directory = self._directory / spec.key
        directory.mkdir(parents=True, exist_ok=True)
        return Host(
            spec,
            directory,
            home=self._home,
            base_url=self._base_url,
            guest=self._guest,
            issue=partial(self._issue, spec.key),
            clock=self._clock,
            strictness=self._strictness,
        )

    def _end_leftovers(self) -> None:
        """Kill what an emulator that was itself killed left running."""
        for record in self._directory.glob("*/host.json"):
            _log.warning("ending what was left running on host %s", record.parent.name)
            power_off(record.parent, erase=False)
