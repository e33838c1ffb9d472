"""Start the process that keeps a container running, which outlives the docker command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from embedded_cloud.docker.containers import Container, Containers
from embedded_cloud.docker.errors import DockerError

#: Seconds that a supervisor has to start its container.
WITHIN = 20.0


def start(containers: Containers, container: Container) -> None:
    """Return once ``container`` has started, or has ended already.

    A supervisor that takes too long is killed: what was told not to have started must not start
    later.

    Raises:
        DockerError: it did not start. The error has the last line of what its supervisor said.
    """
    where = [str(containers.host), str(containers.root), container.name]
    with containers.errors(container.name).open("wb") as errors:
        supervisor = subprocess.Popen(
            [sys.executable, "-P", "-m", "embedded_cloud.docker.supervisor", *where],
            start_new_session=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    deadline = time.monotonic() + WITHIN
    while time.monotonic() < deadline and supervisor.poll() is None:
        if _started(containers, container):
            # The supervisor outlives this process on purpose: nothing waits for it.
            supervisor.returncode = 0
            return
        time.sleep(0.02)
    if _started(containers, container):
        return
    if supervisor.poll() is None:
        os.killpg(supervisor.pid, signal.SIGKILL)
        supervisor.wait()
        why = f"its supervisor took more than {WITHIN:g} s"
    else:
        said = containers.errors(container.name).read_text(encoding="utf-8", errors="replace")
        lines = [line for line in said.splitlines() if line.strip()]
        why = lines[-1] if lines else f"its supervisor ended with {supervisor.returncode}"
    raise DockerError(f"Error response from daemon: the container did not start: {why}", 125)


def _started(containers: Containers, container: Container) -> bool:
    now = containers.get(container.name)
    return now is not None and now.status != "created"
