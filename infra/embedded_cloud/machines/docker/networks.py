"""Bridges, and the containers on them: each has a network namespace that leads nowhere."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from embedded_cloud.machines.docker.arguments import HOST_NETWORK
from embedded_cloud.machines.docker.containers import Container, DockerError
from embedded_cloud.machines.namespace import entering

#: Not imported, as only its process needs what it does.
_SHIM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("shim.py")))


@dataclass(frozen=True, slots=True)
class Networks:
    """The bridges of one host, in ``networks.json``.

    Attributes:
        host: the host's directory.
        out: where results are written.
    """

    host: Path
    out: TextIO

    def run(self, arguments: Sequence[str]) -> None:
        """`docker network COMMAND …`.

        Raises:
            DockerError: the command failed, or is none of those known here.
        """
        table: dict[str, Callable[[Sequence[str]], None]] = {
            "create": self._create,
            "inspect": self._inspect,
        }
        command = arguments[0] if arguments else ""
        if command not in table:
            raise DockerError(f"docker: of `network`, only {', '.join(table)} are known here", 1)
        table[command](arguments[1:])

    def require(self, name: str) -> None:
        """Check that there is a bridge called ``name``.

        Raises:
            DockerError: there is none.
        """
        if name not in self._all():
            raise DockerError(f"Error response from daemon: network {name} not found")

    def _create(self, arguments: Sequence[str]) -> None:
        options: dict[str, str] = {}
        rest = list(arguments)
        while rest and rest[0].startswith("-"):
            flag, value = rest.pop(0), rest.pop(0) if rest else ""
            if flag in ("-d", "--driver"):
                if value != "bridge":
                    raise DockerError(f"network driver {value!r} is not supported: use bridge", 1)
            elif flag in ("-o", "--opt"):
                key, _, text = value.partition("=")
                if key != "com.docker.network.bridge.name":
                    raise DockerError(f"network option {key!r} is not supported", 1)
                options[key] = text
            else:
                raise DockerError(f"unknown flag for docker network create: {flag}", 125)
        if len(rest) != 1:
            raise DockerError("'docker network create' requires 1 argument: the name", 1)
        (name,) = rest
        networks = self._all()
        if name in networks or name in ("host", "none", "bridge"):
            raise DockerError(
                f"Error response from daemon: network with name {name} already exists", 1
            )
        document = {"Name": name, "Driver": "bridge", "Options": options}
        self._file().write_text(json.dumps({**networks, name: document}), encoding="utf-8")
        self.out.write(f"{name}\n")

    def _inspect(self, arguments: Sequence[str]) -> None:
        if len(arguments) != 1 or arguments[0].startswith("-"):
            raise DockerError("'docker network inspect' takes 1 argument here: the name", 1)
        (name,) = arguments
        if name not in self._all():
            self.out.write("[]\n")
            raise DockerError(f"Error response from daemon: network {name} not found", 1)
        self.out.write(f"{json.dumps([self._all()[name]], indent=4)}\n")

    def _file(self) -> Path:
        return self.host / "networks.json"

    def _all(self) -> dict[str, object]:
        try:
            document = json.loads(self._file().read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        return dict(document)


def require_namespaces() -> None:
    """Check that this machine lets its user make a network namespace.

    Raises:
        DockerError: it does not, so a container on a bridge would be on the machine's network.
    """
    tried = subprocess.run(_SHIM, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        raise DockerError(
            "Error response from daemon: a bridge needs network namespaces, which this machine"
            f" refuses to its user ({tried.stderr.strip()})"
        )


def in_own_network(container: Container, doors: Sequence[tuple[socket.socket, int]]) -> list[str]:
    """The command that runs ``container``'s command in a network of its own.

    Args:
        container: it.
        doors: the listeners of its published ports, which that command inherits, and the ports
            inside.
    """
    given = [f"--door={listener.fileno()}:{inside}" for listener, inside in doors]
    return [*container.within, *_SHIM, *given, *container.command]


def in_network_of(other: Container, container: Container) -> list[str]:
    """The command that runs ``container``'s command in the network of ``other``, which runs.

    That is entered before the mounts of ``container`` are: from within its user namespace, another
    one's network could not be.

    Raises:
        DockerError: ``other`` has a network of its own, which is not there yet, or no longer.
    """
    import psutil

    # The first child is what has entered the network of `other`, where it has one. A process that
    # has ended has no namespaces.
    entered: tuple[str, ...] = ()
    with suppress(psutil.NoSuchProcess, OSError, StopIteration):
        first = next(iter(psutil.Process(other.pid).children()))
        if entering(first.pid, "net"):
            entered = entering(first.pid, "user", "net")
    if not entered and other.network != HOST_NETWORK:
        # Without this the command would be on the machine's network.
        raise DockerError(
            f"Error response from daemon: the network of container {other.name} is not there yet"
        )
    return [*entered, *container.within, *_SHIM, "--entered", *container.command]
