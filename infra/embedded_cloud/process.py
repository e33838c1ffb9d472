"""The emulator's process: ``python -m embedded_cloud.process --state-dir DIR --port PORT``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import importlib.metadata
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import psutil

from embedded_cloud.cloud import Cloud
from embedded_cloud.core.address import ADDRESS_FILE, Address, write_address
from embedded_cloud.core.clock import SystemClock, rfc3339
from embedded_cloud.core.errors import CloudError
from embedded_cloud.machines.hosts.processes import read_record, same_process
from embedded_cloud.server import serving
from embedded_cloud.services.tpu.capacity import Capacity
from tpuflex.errors import EmulatorError
from tpuflex.files.trusted import open_lock, own_directory, write_private

_log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 3.0


class PluginProcess:
    """Starts and ends ``python -m embedded_cloud.gcp_plugin``.

    Args:
        state_dir: the emulator's state directory; the child is recorded there, so that the
            next start ends one that a killed emulator left behind.
        base_url: address of the emulator.
    """

    def __init__(self, state_dir: Path, base_url: str) -> None:
        self._state_dir = state_dir
        self._record = state_dir / "plugin.json"
        self._base_url = base_url
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> int | None:
        """Start it; returns the port on which it listens, ``None`` if it does not come up."""
        self._end_leftover()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "embedded_cloud.gcp_plugin",
            "--base-url",
            self._base_url,
            "--state-dir",
            str(self._state_dir),
            "--port",
            "0",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        pid = self._process.pid
        started = psutil.Process(pid).create_time()
        write_private(self._record, json.dumps({"pid": pid, "create_time": started}))
        line = b"" if self._process.stdout is None else await self._process.stdout.readline()
        if not line.strip().isdigit():
            _log.error("the gcp plugin did not come up (it said %r)", line)
            return None
        return int(line)

    async def ended(self) -> None:
        """Wait until it has ended."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self) -> None:
        """End it."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT_S)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._record.unlink(missing_ok=True)

    def _end_leftover(self) -> None:
        record = read_record(self._record)
        process = None if record is None else same_process(*record)
        if process is not None:
            _log.warning("ending the gcp plugin that was left running (process %d)", process.pid)
            with contextlib.suppress(psutil.Error):
                process.kill()


def main() -> int:
    """Serve until SIGTERM or SIGINT. One line of JSON on stdout says whether it serves."""
    arguments = _arguments()
    state_dir: Path = arguments.state_dir
    # Whatever is made here is nobody else's.
    os.umask(0o077)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s"
    )
    try:
        with _only_one(state_dir):
            asyncio.run(_serve(arguments))
    except EmulatorError as error:
        logging.getLogger(__name__).error("%s", error)
        _report({"error": error.message, "hint": str(error.hint)})
        return error.exit_code
    return 0


async def _serve(arguments: argparse.Namespace) -> None:
    state_dir: Path = arguments.state_dir
    port: int = arguments.port
    capacity: str | None = arguments.capacity
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    cloud = Cloud(state_dir, stub_hosts=arguments.stub_hosts)
    try:
        if capacity is not None:
            cloud.capacity.set(_capacity(capacity))
        async with contextlib.AsyncExitStack() as stack:
            try:
                bound = await stack.enter_async_context(serving(cloud, port))
            except OSError as error:
                raise _port_taken(port, error) from error
            address = _address(bound)
            write_address(state_dir, address)
            stack.callback((state_dir / ADDRESS_FILE).unlink, missing_ok=True)
            _report({"port": bound})
            await stack.enter_async_context(_plugin(state_dir, cloud.base_url, address))
            await stopped.wait()
    finally:
        cloud.close()


@contextlib.asynccontextmanager
async def _plugin(state_dir: Path, base_url: str, address: Address) -> AsyncIterator[None]:
    """Run the gcp plugin beside the server and record its port once it listens.

    If it is killed, another is started, on another port.
    """
    plugin = PluginProcess(state_dir, base_url)

    async def keep() -> None:
        while (port := await plugin.start()) is not None:
            write_address(state_dir, replace(address, gcp_plugin_port=port))
            await plugin.ended()
            # From here on, callers that need the port wait for the next one.
            write_address(state_dir, address)

    task = asyncio.create_task(keep(), name="tpuflex-gcp-plugin")
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        await plugin.stop()


def _address(port: int) -> Address:
    return Address(
        pid=os.getpid(),
        create_time=psutil.Process().create_time(),
        port=port,
        gcp_plugin_port=None,
        started_at=rfc3339(SystemClock().now()),
        version=importlib.metadata.version("tpuflex"),
    )


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tpuflex-emulator")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--capacity", help="capacity rules as JSON")
    parser.add_argument(
        "--stub-hosts",
        action="store_true",
        help="for tests: hosts run nothing and are READY at once",
    )
    return parser.parse_args()


def _capacity(document: str) -> Capacity:
    try:
        rules = json.loads(document)
        if not isinstance(rules, dict):
            raise EmulatorError("capacity: expected a JSON object")
        return Capacity.from_json(rules)
    except ValueError as error:
        raise EmulatorError(f"capacity: {error}") from None
    except CloudError as error:
        raise EmulatorError(error.message) from None


@contextlib.contextmanager
def _only_one(state_dir: Path) -> Iterator[None]:
    """Lock the state directory; the kernel releases it however this process ends."""
    own_directory(state_dir)
    with open_lock(state_dir / "lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EmulatorError(
                f"another embedded cloud is using {state_dir}",
                hint="See: tpuflex emulator status",
            ) from None
        yield


def _port_taken(port: int, error: OSError) -> EmulatorError:
    holder = _holder(port)
    by = f" by process {holder.pid} ({_command(holder)})" if holder else ""
    return EmulatorError(
        f"port {port} of 127.0.0.1 is taken{by}" if holder else f"port {port}: {error.strerror}",
        hint="Choose another: tpuflex emulator start --port 0",
    )


def _holder(port: int) -> psutil.Process | None:
    """The process that listens on ``port``, if this user may see it."""
    try:
        for connection in psutil.net_connections("tcp"):
            listens = connection.status == psutil.CONN_LISTEN
            address = tuple(connection.laddr)
            if listens and address[1:] == (port,) and connection.pid:
                return psutil.Process(connection.pid)
    except psutil.Error:
        pass
    return None


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline()[:4])
    except psutil.Error:
        return "of another user"


def _report(document: dict[str, object]) -> None:
    """Write one line to the process that started this one, then give up stdout."""
    with contextlib.suppress(OSError):
        sys.stdout.write(json.dumps(document) + "\n")
        sys.stdout.flush()
    with contextlib.suppress(OSError), Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), 1)


if __name__ == "__main__":
    sys.exit(main())
