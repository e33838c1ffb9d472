"""The record of each container, in ``<host>/containers/<name>.json``.

The emulator reads the same files to end a host's containers with the host: ``pid`` is the process
group that holds the supervisor and everything the container started.

psutil is loaded where there is a process to ask about: the docker commands of a boot that come
before its container do without, and loading modules is most of what they take.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import time
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from embedded_cloud.machines.namespace import Bind

if TYPE_CHECKING:
    import psutil


class DockerError(Exception):
    """What docker writes to stderr, with its exit code."""

    def __init__(self, message: str, code: int = 125) -> None:
        super().__init__(message)
        self.message = message
        self.code = code


@dataclass(slots=True)
class Container:
    """One container, running or not.

    Attributes:
        id: 64 hex digits, as docker's.
        name: its name, unique on the host.
        image: image reference with digest.
        command: the argument list that is executed.
        environment: all of its environment.
        labels: its labels.
        mounts: what it was given of the host.
        within: what its command is run by: the namespace of its mounts, if it has one.
        restart: restart policy.
        remove: whether it is removed when it ends.
        network: ``host``, a bridge: then it has a network of its own, or ``container:NAME``.
        ports: published ports of one with a network of its own, as ``ADDRESS:OUTSIDE:INSIDE``.
        status: created, running, restarting, exited.
        exit_code: of the last exit.
        restart_count: how often the restart policy started it again.
        pid: process group of the container, 0 before it has one.
        create_time: epoch seconds at which that process's leader started.
        started_at: epoch seconds of the last start.
    """

    id: str
    name: str
    image: str
    command: list[str]
    environment: dict[str, str]
    labels: dict[str, str] = field(default_factory=dict)
    mounts: list[Bind] = field(default_factory=list)
    within: list[str] = field(default_factory=list)
    restart: str = "no"
    remove: bool = False
    network: str = "host"
    ports: list[str] = field(default_factory=list)
    status: str = "created"
    exit_code: int = 0
    restart_count: int = 0
    pid: int = 0
    create_time: float = 0.0
    started_at: float = 0.0

    def alive(self) -> bool:
        """Whether the supervisor runs, and not another process that reuses its id."""
        if not self.pid:
            return False
        import psutil

        with contextlib.suppress(psutil.Error):
            leader = psutil.Process(self.pid)
            if leader.status() != psutil.STATUS_ZOMBIE:
                return abs(leader.create_time() - self.create_time) < 2.0
        return False


@dataclass(frozen=True, slots=True)
class Containers:
    """The containers of one host.

    Attributes:
        host: the host's directory.
        root: the root of the host's file system.
    """

    host: Path
    root: Path

    def record(self, name: str) -> Path:
        """The record of ``name``."""
        return self.host / "containers" / f"{name}.json"

    def log(self, name: str) -> Path:
        """Everything that ``name`` wrote to stdout and stderr."""
        return self.host / "containers" / f"{name}.log"

    def errors(self, name: str) -> Path:
        """What the process said that keeps ``name`` running; empty unless that fails."""
        return self.host / "containers" / f"{name}.err"

    def files(self, name: str) -> Path:
        """The directory that ``name`` starts in: its home and its temporary files."""
        return self.root / "var" / "lib" / "docker" / name

    def get(self, name: str) -> Container | None:
        """The container of that name, or whose id starts with it; None if there is none."""
        for container in self.all():
            if container.name == name or (len(name) >= 12 and container.id.startswith(name)):
                return container
        return None

    def require(self, name: str) -> Container:
        """The container called ``name``.

        Raises:
            DockerError: there is none.
        """
        container = self.get(name)
        if container is None:
            raise DockerError(f"Error response from daemon: No such container: {name}", 1)
        return container

    def require_running(self, name: str) -> Container:
        """The container called ``name``, whose network another one is to share.

        Raises:
            DockerError: there is none, or it does not run.
        """
        container = self.require(name)
        if container.status != "running":
            raise DockerError(
                "Error response from daemon: cannot join network of a non running container:"
                f" {container.id}"
            )
        return container

    def all(self) -> list[Container]:
        """Every container, by name; one whose processes are gone has exited."""
        containers = []
        for path in sorted((self.host / "containers").glob("*.json")):
            names = {f.name for f in fields(Container)}
            data = json.loads(path.read_text(encoding="utf-8"))
            container = Container(**{key: value for key, value in data.items() if key in names})
            container.mounts = [Bind(**each) for each in data["mounts"]]
            if container.status in ("running", "restarting") and not container.alive():
                # Killed with its supervisor, or the host was restarted.
                container.status, container.exit_code = "exited", 137
            containers.append(container)
        return containers

    def save(self, container: Container) -> None:
        """Write ``container`` in one step, so that a reader never sees half of it."""
        path = self.record(container.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(asdict(container), indent=1), encoding="utf-8")
        temporary.replace(path)

    def remove(self, container: Container) -> None:
        """End ``container`` at once and forget it."""
        kill(container)
        self.forget(container)

    def forget(self, container: Container) -> None:
        """Remove what is kept of ``container``."""
        shutil.rmtree(self.files(container.name), ignore_errors=True)
        self.record(container.name).unlink(missing_ok=True)
        self.log(container.name).unlink(missing_ok=True)
        self.errors(container.name).unlink(missing_ok=True)


def kill(container: Container, within: float = 10.0) -> None:
    """Kill everything that ``container`` started and wait until it is gone."""
    if not container.alive():
        return
    import psutil

    leader = psutil.Process(container.pid)
    family = [leader]
    with contextlib.suppress(psutil.Error):
        family += leader.children(recursive=True)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(container.pid, signal.SIGKILL)
    for process in family:
        with contextlib.suppress(psutil.Error):
            process.kill()
    deadline = time.monotonic() + within
    while any(map(_runs, family)) and time.monotonic() < deadline:
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    """Whether ``process`` lives; one that only waits for its parent to read its end does not."""
    import psutil

    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def stop(containers: Containers, container: Container, grace: float) -> None:
    """Ask ``container`` to end, and kill it after ``grace`` seconds."""
    if container.alive():
        os.kill(container.pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while container.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        kill(container)
    after = containers.get(container.name)
    if after is not None and after.status != "exited":
        after.status = "exited"
        containers.save(after)
