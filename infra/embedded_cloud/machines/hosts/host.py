"""One emulated host: a directory, a metadata server and the startup script's processes."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.json_types import JsonObject
from embedded_cloud.core.strictness import Registry, Strictness
from embedded_cloud.machines.docker.pull import REGISTRY_VARIABLE
from embedded_cloud.machines.hosts import init
from embedded_cloud.machines.hosts.commands import commands
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.machines.hosts.metadata_server import MetadataServer
from embedded_cloud.machines.hosts.spec import HostSpec
from embedded_cloud.machines.namespace import OWN_MOUNTS_VARIABLE, Plan

_ROOT_DIRECTORIES = ("run", "dev/shm", "dev/vfio", "var/log", "tmp", "home")

#: Where the startup script keeps what must not reach a disk.
MEMORY = "run/tpuflex/memory"

_EXIT_CODE = "startup-script.exit-code"

#: What a reboot empties.
_VOLATILE = ("run", "dev", "tmp")


class Host:
    """A running host.

    Args:
        spec: what it is.
        directory: its directory under ``hosts/``.
        home: tpuflex's home, which has the images.
        base_url: address of the emulator.
        guest: where guest attributes go.
        issue: makes an access token of its service account that lives for so many seconds.
        clock: the cloud's time.
        strictness: which of Google's refusals are imitated now.
    """

    def __init__(
        self,
        spec: HostSpec,
        directory: Path,
        *,
        home: Path,
        base_url: Callable[[], str],
        guest: GuestAttributes,
        issue: Callable[[float], str],
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self.spec = spec
        self.directory = directory
        self._home = home
        self._base_url = base_url
        self._strictness = strictness
        self._metadata = MetadataServer(spec, guest, issue, clock=clock, strictness=strictness)
        self._init: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        """The root of the host's file system (``TPUFLEX_ROOT``)."""
        return self.directory / "root"

    async def boot(self) -> None:
        """Start the metadata server, then the startup script, if the machine comes up at all."""
        await self._metadata.start()
        await asyncio.to_thread(self._prepare)
        script = self.spec.metadata.get("startup-script")
        if script is not None and comes_up(self.spec, self._strictness()):
            await asyncio.to_thread(self._launch, script)

    def update(self, spec: HostSpec) -> None:
        """Take over what has changed of its owner while it runs: its metadata, above all."""
        self.spec = spec
        self._metadata.update(spec)

    async def power_off(self, *, erase: bool) -> None:
        """Kill everything on the host at once, as pulling the plug does.

        Args:
            erase: also remove its file system (the node is gone); the serial log stays.
        """
        await asyncio.to_thread(power_off, self.directory, erase=erase)
        if self._init is not None:
            await asyncio.to_thread(self._init.wait)
        await self._metadata.stop()

    def describe(self) -> JsonObject:
        """The host as the control API shows it."""
        return {
            "key": self.spec.key,
            "owner": self.spec.owner,
            "node": self.spec.owner,
            "worker": self.spec.worker,
            "address": self.spec.address,
            "metadata_server": self._metadata.address,
            "root": str(self.root),
            "serial_log": str(self.directory / "serial.log"),
            "container_logs": str(self.directory / "containers"),
            "pid": None if self._init is None else self._init.pid,
            "startup_script_exit_code": self._exit_code(),
        }

    def environment(self) -> dict[str, str]:
        """The only variables that processes on the host start with."""
        base_url = self._base_url()
        return {
            **self._of_strictness(),
            "PATH": f"{self.directory}/bin:{Path(sys.executable).parent}:/usr/bin:/bin",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "LANG": "C.UTF-8",
            "TPUFLEX_ROOT": str(self.root),
            "TPUFLEX_HOST_DIR": str(self.directory),
            "TPUFLEX_HOME": str(self._home),
            "GCE_METADATA_HOST": self._metadata.address,
            "STORAGE_EMULATOR_HOST": base_url,
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER": f"{base_url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_LOGGING": f"{base_url}/",
            "CLOUDSDK_API_ENDPOINT_OVERRIDES_MONITORING": f"{base_url}/",
        }

    def _of_strictness(self) -> dict[str, str]:
        """What says how strict this cloud is."""
        strictness = self._strictness()
        extra: dict[str, str] = {}
        if strictness.guest_attributes.queries_per_minute is None:
            # Where nothing is lost, the script may say more often what it is doing.
            extra["TPUFLEX_REPORTS"] = "6000"
        if strictness.registry != Registry():
            extra[REGISTRY_VARIABLE] = f"{self._base_url()}/registry"
        if strictness.hosts.own_mounts:
            extra[OWN_MOUNTS_VARIABLE] = "1"
        return extra

    def _exit_code(self) -> int | None:
        """The startup script's exit code; ``None`` while it runs."""
        try:
            return int((self.directory / _EXIT_CODE).read_text())
        except (OSError, ValueError):
            return None

    def _prepare(self) -> None:
        for name in _VOLATILE:
            shutil.rmtree(self.root / name, ignore_errors=True)
        for name in _ROOT_DIRECTORIES:
            # The startup script refuses directories that others may write to.
            (self.root / name).mkdir(mode=0o755, parents=True, exist_ok=True)
        binaries = self.directory / "bin"
        # Nothing of an earlier boot's: it may have installed what this one shall lack.
        shutil.rmtree(binaries, ignore_errors=True)
        binaries.mkdir()
        for name, script in commands(self._strictness()).items():
            command = binaries / name
            command.write_text(script)
            command.chmod(0o755)
        for device in ("vfio", *map(str, range(chips(self.spec.machine_type)))):
            # Only root could make a device; one that takes anything is a device all the same.
            (self.root / "dev" / "vfio" / device).symlink_to("/dev/null")

    def _first_process(self, script: Path) -> list[str]:
        words = [str(script), str(self.directory / _EXIT_CODE), str(os.getpid())]
        command = [sys.executable, "-I", "-S", init.__file__, *words]
        hosts = self._strictness().hosts
        if not hosts.own_mounts or hosts.shm_bytes is None:
            return command
        memory = self.root / MEMORY
        # As the startup script makes them.
        memory.mkdir(parents=True)
        memory.parent.chmod(0o700)
        return Plan({str(memory): hosts.shm_bytes}).command(command)

    def _launch(self, script: str) -> None:
        import psutil  # not needed, and slow to import, without hosts

        path = self.root / "run" / "startup-script"
        path.write_text(script, encoding="utf-8")
        path.chmod(0o700)
        with (self.directory / "serial.log").open("ab") as serial:
            self._init = subprocess.Popen(
                self._first_process(path),
                env=self.environment(),
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=serial,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                # As on a real host; the embedded cloud itself makes everything private.
                umask=0o022,
            )
        record = {
            "pid": self._init.pid,
            "create_time": psutil.Process(self._init.pid).create_time(),
            "owner": self.spec.owner,
        }
        _write_atomically(self.directory / "host.json", json.dumps(record))


def comes_up(spec: HostSpec, strictness: Strictness) -> bool:
    """Whether the machine gets as far as to run anything: one that does not says nothing."""
    return strictness.hosts.secure_boot_boots or not spec.secure_boot


def chips(machine_type: str) -> int:
    """The chips of a host, such as 8 of a ``ct6e-standard-8t``; 1 where the name does not say."""
    match = re.search(r"-(\d+)t$", machine_type)
    return int(match[1]) if match else 1


def power_off(directory: Path, *, erase: bool) -> None:
    """Kill what runs on the host of ``directory``, and remove its file system if ``erase``."""
    from embedded_cloud.machines.hosts.processes import kill_host

    kill_host(directory)
    for record in ("host.json", _EXIT_CODE):
        (directory / record).unlink(missing_ok=True)
    for name in ("root", "containers") if erase else (f"root/{name}" for name in _VOLATILE):
        shutil.rmtree(directory / name, ignore_errors=True)


def _write_atomically(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
