"""Keep one container running: start its command, wait, start it again if its policy says so.

Runs as ``python -m embedded_cloud.machines.docker.supervisor HOST ROOT NAME``, leader of the
container's session, as the shim of a container engine does. With the descriptor of an error output
as a fourth argument, the container is attached: it has that, and this process's input and output.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import IO

import psutil

from embedded_cloud.machines.docker.arguments import HOST_NETWORK, OF_CONTAINER
from embedded_cloud.machines.docker.containers import Container, Containers
from embedded_cloud.machines.docker.networks import in_network_of, in_own_network
from embedded_cloud.machines.docker.shim import open_door

#: As docker's: the delay doubles from 100 ms to a minute, and is reset after 10 s of life.
FIRST_DELAY, LONGEST_DELAY, HEALTHY_AFTER = 0.1, 60.0, 10.0
_PR_SET_CHILD_SUBREAPER = 36


class Supervisor:
    """Runs one container until it ends for good or is stopped.

    Args:
        containers: the host's containers.
        container: it.
        attached: descriptor of the error output of an attached one; None for one that has a log.
    """

    def __init__(
        self, containers: Containers, container: Container, attached: int | None = None
    ) -> None:
        self._containers = containers
        self._container = container
        self._attached = attached
        self._stopped = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        """Pass SIGTERM on to the container's first process and do not start it again."""
        self._stopped.set()
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def run(self) -> None:
        """Start the command, and start it again according to the restart policy."""
        container = self._container
        container.pid = os.getpid()
        container.create_time = psutil.Process().create_time()
        delay = FIRST_DELAY
        while True:
            began = time.monotonic()
            container.exit_code = self._run_once()
            if self._stopped.is_set() or container.restart == "no":
                break
            if time.monotonic() - began >= HEALTHY_AFTER:
                delay = FIRST_DELAY
            container.status = "restarting"
            container.restart_count += 1
            self._containers.save(container)
            if self._stopped.wait(delay):
                break
            delay = min(2 * delay, LONGEST_DELAY)
        if container.remove:
            self._containers.forget(container)
            return
        container.status = "exited"
        self._containers.save(container)

    def _run_once(self) -> int:
        container = self._container
        with contextlib.ExitStack() as opened:
            log = opened.enter_context(self._log())
            doors = _doors(container)
            for listener, _ in doors:
                opened.enter_context(listener)
            command = [*container.within, *container.command]
            if container.network.startswith(OF_CONTAINER):
                name = container.network.removeprefix(OF_CONTAINER)
                command = in_network_of(self._containers.require_running(name), container)
            elif container.network != HOST_NETWORK:
                command = in_own_network(container, doors)
            try:
                self._child = subprocess.Popen(
                    command,
                    pass_fds=[listener.fileno() for listener, _ in doors],
                    cwd=self._containers.files(container.name),
                    env=container.environment,
                    stdin=subprocess.DEVNULL if self._attached is None else None,
                    stdout=log if self._attached is None else None,
                    stderr=log,
                )
            except OSError as error:
                log.write(f"exec {container.command[0]}: {error.strerror}\n".encode())
                return 127
        container.status, container.started_at = "running", time.time()
        self._containers.save(container)
        if self._stopped.is_set():
            self._child.terminate()
        code = self._child.wait()
        _end_orphans()
        # Death by a signal, as a shell and docker encode it.
        return code if code >= 0 else 128 - code

    def _log(self) -> IO[bytes]:
        if self._attached is not None:
            return os.fdopen(os.dup(self._attached), "wb", buffering=0)
        return self._containers.log(self._container.name).open("ab")


def _doors(container: Container) -> list[tuple[socket.socket, int]]:
    """The listeners of ``container``'s published ports, and its ports: a container that is said to
    run has them, so that nobody else answers in its place.

    Raises:
        SystemExit: one is taken.
    """
    try:
        return [open_door(published) for published in container.ports]
    except OSError as error:
        ports = ", ".join(published.rpartition(":")[0] for published in container.ports)
        raise SystemExit(f"Bind for {ports} failed: {error.strerror}") from None


def _end_orphans() -> None:
    """Kill what the first process left behind: a container ends with that process."""
    orphans = psutil.Process().children(recursive=True)
    for orphan in orphans:
        with contextlib.suppress(psutil.Error):
            orphan.kill()
    psutil.wait_procs(orphans, timeout=10)


def main(host: Path, root: Path, name: str, attached: int | None = None) -> int:
    """Supervise the container ``name`` of ``host``; its exit code."""
    # Orphaned processes become our children instead of init's, so that none is lost.
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    containers = Containers(host, root)
    container = containers.require(name)
    supervisor = Supervisor(containers, container, attached)
    signal.signal(signal.SIGTERM, supervisor.stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    supervisor.run()
    return container.exit_code


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[4:]]
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], *given))
