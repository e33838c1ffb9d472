"""The embedded cloud served on loopback.

:mod:`embedded_cloud.process` runs it as a process of its own; :class:`EmbeddedCloud` runs it
inside the caller's process, on a thread and a free port.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aiohttp import web

from embedded_cloud import control
from embedded_cloud.cloud import Cloud
from embedded_cloud.core.clock import Clock, MovableClock
from embedded_cloud.core.environment import client_environment, tunnel_environment
from embedded_cloud.core.inbound_request import MAX_JSON_BYTES
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.peer import LOOPBACK_NAMES, owners_door
from embedded_cloud.core.store import Store
from embedded_cloud.services import hub
from embedded_cloud.services.artifactregistry import docker_registry
from embedded_cloud.services.tokens import server as tokens
from embedded_cloud.services.tpu.capacity import Capacity
from tpuflex.errors import EmulatorError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

#: Seconds of real time between two checks of what is due (hosts to launch, runs to end).
TICK_S = 0.2


def create_app(cloud: Cloud) -> web.Application:
    """The application that serves ``cloud``, with its ticker and its hosts."""
    # What is read whole is bounded; weights are uploaded as streams, which this does not bound.
    app = web.Application(client_max_size=MAX_JSON_BYTES, middlewares=[owners_door(LOOPBACK_NAMES)])
    control.add_routes(app, cloud)
    docker_registry.add_routes(app, cloud.context, cloud.history)
    hub.add_routes(app, cloud.state_dir, cloud.history)
    tokens.add_routes(app, cloud.context, cloud.identities, cloud.access, cloud.history)
    app.router.add_route("*", "/{path:.*}", cloud.pipeline.handle)
    app.cleanup_ctx.append(_ticker(cloud))
    return app


def _ticker(cloud: Cloud) -> Callable[[web.Application], AsyncIterator[None]]:
    stopping = False

    async def run() -> None:
        while not stopping:
            await cloud.settle()
            await cloud.hosts.wait_for_wake(TICK_S)

    async def context(_app: web.Application) -> AsyncIterator[None]:
        nonlocal stopping
        task = asyncio.create_task(run(), name="tpuflex-emulator-ticker")
        task.add_done_callback(_log_failure)
        yield
        # Not cancelled: a host that is still booting must be registered before all are ended.
        stopping = True
        cloud.hosts.wake()
        await task
        await cloud.close_ways_in()
        await cloud.hosts.shut_down()

    return context


def _log_failure(ticker: asyncio.Task[None]) -> None:
    if not ticker.cancelled() and ticker.exception() is not None:
        _log.error("time stands still in the embedded cloud", exc_info=ticker.exception())


class EmbeddedCloud:
    """The embedded cloud inside this process, for tests and short programs.

    ``with EmbeddedCloud(tmp_path) as cloud:`` serves at ``cloud.url`` until the block ends.

    Args:
        state_dir: where its state is kept; the same directory again continues it.
        capacity: capacity rules as ``POST /_emulator/capacity`` takes them.
        strictness: a change of the lenient default, as ``POST /_emulator/strictness`` takes it.
        clock: its time (a :class:`~embedded_cloud.core.clock.ManualClock` in tests).
        launch_hosts: whether READY nodes get an emulated host that runs their startup
            script; off by default.
        stub_hosts: whether they get a host that runs nothing and is READY at once.
        project: project named by :meth:`environ`.
        token: its access token; by default a new one; kept in ``state_dir``.
    """

    def __init__(
        self,
        state_dir: Path,
        *,
        capacity: JsonObject | None = None,
        strictness: JsonObject | None = None,
        clock: MovableClock | None = None,
        launch_hosts: bool = False,
        stub_hosts: bool = False,
        project: str = "tpuflex-embedded",
        token: str = "",
    ) -> None:
        self.state_dir = state_dir
        self.project = project
        self.cloud = Cloud(
            state_dir,
            clock=clock,
            launch_hosts=launch_hosts or stub_hosts,
            stub_hosts=stub_hosts,
            token=token,
        )
        if capacity is not None:
            self.cloud.capacity.set(Capacity.from_json(capacity))
        if strictness is not None:
            self.cloud.strictness.change(strictness)
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(
            target=self._serve, name="tpuflex-embedded-cloud", daemon=True
        )
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._stop = asyncio.Event()

    @property
    def url(self) -> str:
        """Base address without trailing slash."""
        return self.cloud.base_url

    @property
    def token(self) -> str:
        """The access token that opens it: ``Authorization: Bearer <token>``."""
        return self.cloud.access.token

    @property
    def clock(self) -> Clock:
        """The cloud's time."""
        return self.cloud.clock

    @property
    def store(self) -> Store:
        """The cloud's store."""
        return self.cloud.store

    def environ(self, credentials: str = "") -> Mapping[str, str]:
        """Environment variables that point Google's clients and tpuflex here.

        Args:
            credentials: their kind, as in the area ``tokens`` of the strictness, which says it by
                default.
        """
        kind = credentials or self.cloud.strictness.current().tokens.credentials
        issued = None if kind == "token" else self.cloud.credentials.issue(kind, self.project)
        return client_environment(
            base_url=self.url,
            state_dir=self.state_dir,
            project=self.project,
            credentials=issued,
        )

    def tunnel_environ(self) -> Mapping[str, str]:
        """Environment variables for gcloud when it connects to a host with a private address."""
        address = asyncio.run_coroutine_threadsafe(self.cloud.iap.address(), self._loop)
        found = address.result(timeout=60)
        return tunnel_environment(found.port, found.certificate)

    def advance(self, seconds: float) -> None:
        """Move the clock and let everything that is due happen, hosts included."""
        self.cloud.advance(seconds)
        asyncio.run_coroutine_threadsafe(self.cloud.settle(), self._loop).result(timeout=60)

    def __enter__(self) -> EmbeddedCloud:
        self._thread.start()
        self._ready.wait()
        if self._failure is not None:
            raise EmulatorError(f"the embedded cloud did not start: {self._failure}")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=60)
        self.cloud.close()

    def _serve(self) -> None:
        # At its end a runner cancels what still serves a connection; a closed loop leaves it open.
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            try:
                runner.run(self._run())
            except OSError as error:
                self._failure = error
            finally:
                self._ready.set()

    async def _run(self) -> None:
        async with serving(self.cloud, 0):
            self._ready.set()
            await self._stop.wait()


@contextlib.asynccontextmanager
async def serving(cloud: Cloud, port: int) -> AsyncIterator[int]:
    """Serve ``cloud`` on loopback while the block runs; returns the port.

    Raises:
        OSError: the port is not available.
    """
    runner = web.AppRunner(
        create_app(cloud), handle_signals=False, access_log=None, shutdown_timeout=2.0
    )
    # Bound first: the ticker launches hosts, which need the address.
    sock = _listen(port)
    bound: int = sock.getsockname()[1]
    cloud.serve_at(f"http://127.0.0.1:{bound}")
    try:
        await runner.setup()
        await web.SockSite(runner, sock).start()
        yield bound
    finally:
        await _stop_accepting(sock)
        await runner.cleanup()
        sock.close()


async def _stop_accepting(sock: socket.socket) -> None:
    """Accept nothing more, and let what was accepted become connections, which can be closed: a
    server of asyncio that is closed in between loses them
    (https://github.com/python/cpython/issues/109564)."""
    asyncio.get_running_loop().remove_reader(sock)
    for _ in range(3):
        await asyncio.sleep(0)


def _listen(port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind(("127.0.0.1", port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock
