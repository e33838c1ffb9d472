"""The docker commands that a startup script and a person on the host use.

The programs of an image are this machine's and the image's own directory. Of the host, as of
everything else in tpuflex's directory, there is what ``docker run`` mounts, at its target alone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from embedded_cloud.machines.docker.arguments import (
    HOST_NETWORK,
    OF_CONTAINER,
    RunRequest,
    parse_run,
)
from embedded_cloud.machines.docker.containers import Container, Containers, DockerError, stop
from embedded_cloud.machines.docker.networks import Networks, require_namespaces
from embedded_cloud.machines.docker.pull import HostImages
from embedded_cloud.machines.images import InstalledImage, installed_image
from embedded_cloud.machines.namespace import OWN_MOUNTS_VARIABLE, SHARED_MEMORY, Bind, Plan
from tpuflex.errors import EmulatorError


def own_file_system(
    request: RunRequest, *, home: Path, host: Path, image: Path, files: Path
) -> Plan:
    """The file system of the container of ``request``.

    Args:
        request: its `docker run`.
        home: tpuflex's directory.
        host: the host's directory.
        image: the directory of its image.
        files: the directory of its own that it starts in.
    """
    hidden = (str(home),) if host.is_relative_to(home) else (str(home), str(host))
    given = (*request.mounts, *(Bind(device, device) for device in request.devices))
    own = (Bind(str(image), str(image), read_only=True), Bind(str(files), str(files)))
    return Plan({SHARED_MEMORY: request.shm_bytes}, hidden, (*own, *given), str(files))


#: Seconds that a supervisor has to start its container.
WITHIN = 20.0


def start(containers: Containers, container: Container) -> None:
    """Return once ``container`` has started, or has ended already.

    A supervisor that takes too long is killed: what was told not to have started must not start
    later.

    Raises:
        DockerError: it did not start. The error has the last line of what its supervisor said.
    """
    with containers.errors(container.name).open("wb") as errors:
        supervisor = subprocess.Popen(
            _supervisor(containers, container),
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
        raise _not_started(f"its supervisor took more than {WITHIN:g} s")
    raise _not_started(_last_error(containers, container, supervisor.returncode))


def run_attached(containers: Containers, container: Container) -> int:
    """Run ``container`` with the standard streams of this process, to its end; its exit code.

    What tells this process to end tells the container. If this process is killed, the container
    goes on until its standard input ends.

    Raises:
        DockerError: it did not start.
    """
    with containers.errors(container.name).open("wb") as errors:
        said = os.dup(sys.stderr.fileno())
        supervisor = subprocess.Popen(
            [*_supervisor(containers, container), str(said)],
            start_new_session=True,
            stderr=errors,
            pass_fds=[said],
        )
        os.close(said)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: supervisor.terminate())
    code = supervisor.wait()
    if (left := containers.get(container.name)) is not None and left.id == container.id:
        # Its supervisor did not come to an end of its own.
        why = _last_error(containers, container, code)
        containers.remove(left)
        raise _not_started(why)
    return code


def _supervisor(containers: Containers, container: Container) -> list[str]:
    module = "embedded_cloud.machines.docker.supervisor"
    where = [str(containers.host), str(containers.root), container.name]
    return [sys.executable, "-P", "-m", module, *where]


def _last_error(containers: Containers, container: Container, code: int) -> str:
    """The last line of what the supervisor of ``container`` said, which has ended with ``code``."""
    said = containers.errors(container.name).read_text(encoding="utf-8", errors="replace")
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else f"its supervisor ended with {code}"


def _not_started(why: str) -> DockerError:
    return DockerError(f"Error response from daemon: the container did not start: {why}")


def _started(containers: Containers, container: Container) -> bool:
    now = containers.get(container.name)
    return now is not None and now.status != "created"


VERSION = "tpuflex stand-in 1"
#: What the official serving image runs when it is given no command.
DEFAULT_COMMAND = ("python3", "-m", "vllm.entrypoints.openai.api_server")


@dataclass(frozen=True, slots=True)
class Docker:
    """One host's docker.

    Attributes:
        containers: the host's containers.
        home: tpuflex's state directory, which holds the images.
        out: where results are written.
        err: where progress is written.
    """

    containers: Containers
    home: Path
    out: TextIO
    err: TextIO

    def run(self, arguments: Sequence[str]) -> int:
        """`docker COMMAND …`; its exit code, which is that of an attached container.

        Raises:
            DockerError: the command failed, or is none of those known here.
        """
        table: dict[str, Callable[[Sequence[str]], int | None]] = {
            "info": self._info,
            "version": self._info,
            "--version": self._info,
            "pull": self._pull,
            "image": self._image,
            "network": Networks(self.containers.host, self.out).run,
            "run": self._run,
            "ps": self._ps,
            "inspect": self._inspect,
            "logs": self._logs,
            "restart": self._restart,
            "stop": self._stop,
            "rm": self._rm,
        }
        command = arguments[0] if arguments else ""
        if command not in table:
            raise DockerError(
                f"docker: {command!r} is not a command of this stand-in; it has {', '.join(table)}",
                1,
            )
        try:
            return table[command](arguments[1:]) or 0
        except EmulatorError as error:
            raise DockerError(f"Error response from daemon: {error}", 1) from error

    @property
    def _images(self) -> HostImages:
        return HostImages(self.containers.host, os.environ)

    def _say(self, line: str) -> None:
        self.out.write(f"{line}\n")

    def _info(self, arguments: Sequence[str]) -> None:
        _plain(arguments, 0, "info")
        self._say(f"Server Version: {VERSION}")

    def _pull(self, arguments: Sequence[str]) -> None:
        (image,) = _plain([word for word in arguments if word not in ("-q", "--quiet")], 1, "pull")
        self._images.pull(image)
        self._pulled(image)
        self._say(image)

    def _pulled(self, image: str) -> InstalledImage:
        if (installed := installed_image(image, self.home)) is not None:
            return installed
        # Only here: see :mod:`embedded_cloud.machines.images`.
        from embedded_cloud.machines.image_installation import ensure_image

        def progress(line: str) -> None:
            self.err.write(f"{line}\n")
            self.err.flush()

        return ensure_image(image, self.home, progress)

    def _image(self, arguments: Sequence[str]) -> None:
        if list(arguments[:1]) != ["inspect"]:
            raise DockerError("docker: of `image`, only `image inspect` is known here", 1)
        (image,) = _plain(arguments[1:], 1, "image inspect")
        installed = installed_image(image, self.home)
        if installed is None or not self._images.has(image):
            raise DockerError(f"Error response from daemon: No such image: {image}", 1)
        digest = image.partition("@")[2]
        self._say(json.dumps([{"Id": digest, "RepoDigests": [installed.reference]}], indent=4))

    def _run(self, arguments: Sequence[str]) -> int:
        own_mounts = OWN_MOUNTS_VARIABLE in os.environ
        request = parse_run(arguments, own_mounts=own_mounts)
        container_id = os.urandom(32).hex()
        request.name = request.name or f"container-{container_id[:12]}"
        taken = self.containers.get(request.name)
        if taken is not None:
            raise DockerError(
                f'Error response from daemon: Conflict. The container name "/{request.name}" is'
                f' already in use by container "{taken.id}".'
            )
        there = self._images.has(request.image)
        if request.pull == "never" and not (there and installed_image(request.image, self.home)):
            raise DockerError(f"Error response from daemon: No such image: {request.image}")
        if not there:
            self._images.pull(request.image)
        image = self._pulled(request.image)
        container = self._container(request, container_id, image)
        if own_mounts:
            container.within = own_file_system(
                request,
                home=self.home,
                host=self.containers.host,
                image=image.directory,
                files=self.containers.files(request.name),
            ).command([])
        if request.network.startswith(OF_CONTAINER):
            self.containers.require_running(request.network.removeprefix(OF_CONTAINER))
        elif request.network != HOST_NETWORK:
            Networks(self.containers.host, self.out).require(request.network)
            require_namespaces()
        self.containers.save(container)
        if not request.detached:
            return run_attached(self.containers, container)
        start(self.containers, container)
        self._say(container_id)
        return 0

    def _container(
        self, request: RunRequest, container_id: str, image: InstalledImage
    ) -> Container:
        files = self.containers.files(request.name)
        for directory in ("home", "tmp"):
            (files / directory).mkdir(parents=True, exist_ok=True)
        if image.home.is_dir():
            try:
                shutil.copytree(image.home, files / "home", symlinks=True, dirs_exist_ok=True)
            except OSError as error:
                raise DockerError(f"the image's home cannot be copied: {error}") from error
        if request.entrypoint:
            command = [request.entrypoint, *request.arguments]
        else:
            command = list(request.arguments or DEFAULT_COMMAND)
        environment = {
            "HOSTNAME": container_id[:12],
            "HOME": str(files / "home"),
            # Paths of sockets in here are limited to 107 characters, which a project's path may use
            # up; all processes of the container start in the same directory.
            "TMPDIR": "/proc/self/cwd/tmp",
            "LANG": "C.UTF-8",
            **image.environment,
            **request.environment,
        }
        return Container(
            id=container_id,
            name=request.name,
            image=request.image,
            command=command,
            environment=environment,
            labels=request.labels,
            mounts=request.mounts,
            restart=request.restart,
            remove=request.remove,
            network=request.network,
            ports=request.ports,
        )

    def _ps(self, arguments: Sequence[str]) -> None:
        everything = _switch(arguments, ("-a", "--all"), "ps")
        self._say(f"{'CONTAINER ID':<14}{'IMAGE':<34}{'STATUS':<14}NAMES")
        for container in self.containers.all():
            if everything or container.status == "running":
                image = container.image[:32]
                self._say(
                    f"{container.id[:12]:<14}{image:<34}{container.status:<14}{container.name}"
                )

    def _inspect(self, arguments: Sequence[str]) -> None:
        (name,) = _plain(arguments, 1, "inspect")
        container = self.containers.get(name)
        if container is None:
            self._say("[]")
            raise DockerError(f"Error: No such object: {name}", 1)
        self._say(json.dumps([_inspected(container)], indent=4))

    def _logs(self, arguments: Sequence[str]) -> None:
        tail, rest = _leading(arguments, "--tail", "-n")
        (name,) = _plain(rest, 1, "logs")
        container = self.containers.require(name)
        log = self.containers.log(container.name)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        first = len(lines) - min(int(tail), len(lines)) if tail else 0
        for line in lines[first:]:
            self._say(line)

    def _stop(self, arguments: Sequence[str]) -> None:
        grace, rest = _leading(arguments, "-t", "--time", "--timeout")
        (name,) = _plain(rest, 1, "stop")
        stop(self.containers, self.containers.require(name), float(grace or 10.0))
        self._say(name)

    def _restart(self, arguments: Sequence[str]) -> None:
        grace, rest = _leading(arguments, "-t", "--time", "--timeout")
        (name,) = _plain(rest, 1, "restart")
        stop(self.containers, self.containers.require(name), float(grace or 10.0))
        container = self.containers.require(name)
        # As docker does: a start by the user resets the count.
        container.status, container.restart_count = "created", 0
        self.containers.save(container)
        start(self.containers, container)
        self._say(name)

    def _rm(self, arguments: Sequence[str]) -> None:
        force = any(word in ("-f", "--force") for word in arguments)
        rest = [word for word in arguments if word not in ("-f", "--force")]
        (name,) = _plain(rest, 1, "rm")
        container = self.containers.require(name)
        if container.status in ("running", "restarting") and not force:
            raise DockerError(
                f"Error response from daemon: cannot remove container {name}: it is running", 1
            )
        self.containers.remove(container)
        self._say(name)


def _inspected(container: Container) -> dict[str, object]:
    """What `docker inspect` shows, limited to what startup scripts read."""
    started = datetime.fromtimestamp(container.started_at, UTC)
    running = container.status in ("running", "restarting")
    return {
        "Id": container.id,
        "Name": f"/{container.name}",
        "RestartCount": container.restart_count,
        "State": {
            "Status": container.status,
            "Running": running,
            "Restarting": container.status == "restarting",
            "ExitCode": container.exit_code,
            "StartedAt": started.isoformat().replace("+00:00", "Z"),
        },
        "Config": {
            "Image": container.image,
            "Labels": container.labels,
            "Env": [f"{key}={value}" for key, value in container.environment.items()],
            "Cmd": container.command,
        },
        "HostConfig": {
            "RestartPolicy": {"Name": container.restart},
            "NetworkMode": container.network,
            "Privileged": container.network == HOST_NETWORK,
        },
        "Mounts": [
            {
                "Type": "bind",
                "Source": mount.source,
                "Destination": mount.target,
                "RW": not mount.read_only,
            }
            for mount in container.mounts
        ],
    }


def _leading(arguments: Sequence[str], *names: str) -> tuple[str, Sequence[str]]:
    """The value of a leading option (empty if it is not given), and the other arguments."""
    if len(arguments) > 1 and arguments[0] in names:
        return arguments[1], arguments[2:]
    return "", arguments


def _plain(arguments: Sequence[str], count: int, command: str) -> tuple[str, ...]:
    """``arguments`` if they are ``count`` words and no flag."""
    for word in arguments:
        if word.startswith("-"):
            raise DockerError(f"unknown flag for docker {command}: {word}", 125)
    if len(arguments) != count:
        raise DockerError(f"docker {command} takes {count} argument(s), got {len(arguments)}", 1)
    return tuple(arguments)


def _switch(arguments: Sequence[str], names: tuple[str, ...], command: str) -> bool:
    _plain([word for word in arguments if word not in names], 0, command)
    return any(word in names for word in arguments)
