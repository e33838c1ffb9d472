"""The stand-in for the gcp provider, run as a child of the emulator."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import sys
from pathlib import Path

import psutil

from embedded_cloud.hosts.processes import read_record, same_process
from tpuflex.trusted_files import write_private

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
