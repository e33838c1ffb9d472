"""Attached containers of the stand-in: their streams, the network of another one, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from embedded_cloud.machines import namespace
from embedded_cloud.machines.images import embedded_image
from embedded_cloud.machines.namespace import OWN_MOUNTS_VARIABLE
from tests.embedded_cloud.api import eventually
from tests.embedded_cloud.machines.test_docker_containers import (
    BRIDGED,
    RIGHTS,
    Host,
    with_namespaces,
)

IMAGE = embedded_image()
ATTACHED = [
    *("run", "--rm", "-i", "--pull", "never", "--log-driver", "none", "--name", "load"),
    *(*RIGHTS, "--network", "container:box", "--entrypoint", "/bin/sh", IMAGE, "-c"),
]
#: Says how it fares, then reads to the end of its input.
WAITS = "echo up; cat; echo over"


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host; processes left on it are killed at the end."""
    host = Host(tmp_path)
    host.containers.host.mkdir()
    yield host
    for container in host.containers.all():
        host.containers.remove(container)


@contextmanager
def docker(
    host: Host, *arguments: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], IO[str], IO[str]]]:
    """A docker command in a process of its own, as a host runs it; its input and its output."""
    environment = {
        **os.environ,
        "TPUFLEX_HOST_DIR": str(host.containers.host),
        "TPUFLEX_ROOT": str(host.containers.root),
        "TPUFLEX_HOME": str(host.home),
        **environment,
    }
    pipe = subprocess.PIPE
    words = [sys.executable, "-P", "-m", "embedded_cloud.machines.docker", *arguments]
    with subprocess.Popen(
        words, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        try:
            yield run, run.stdin, run.stdout
        finally:
            run.kill()


def ended(host: Host, *arguments: str, typed: str = "", **environment: str) -> tuple[int, str, str]:
    """The exit code, output and errors of a docker command with an input."""
    with docker(host, *arguments, **environment) as (run, _, _):
        out, err = run.communicate(typed, timeout=60)
        return run.returncode, out, err


def names(host: Host) -> list[str]:
    return [container.name for container in host.containers.all()]


def test_an_attached_container_has_the_streams_of_its_command(host: Host) -> None:
    """Input, output and errors are those of `docker run`, and so is the exit code; then it is gone.
    Its only limit is no new privileges, in the network of a container that has the host's."""
    host.start("sleep 60")
    script = "cat; echo error >&2; grep NoNewPrivs /proc/self/status; exit 7"
    said = (7, "input\nNoNewPrivs:\t1\n", "error\n")
    assert ended(host, *ATTACHED, script, typed="input\n") == said
    assert names(host) == ["box"]
    assert not host.containers.files("load").exists()


@with_namespaces
@pytest.mark.parametrize("own_mounts", [False, True])
def test_it_is_in_the_network_of_another(host: Host, *, own_mounts: bool) -> None:
    """It reaches what listens on the other's own loopback address, and nothing of the machine's."""
    if own_mounts and namespace.refusal():
        pytest.skip("this machine lets its user have no mount namespaces")
    host.docker("network", "create", "bridge0")
    server = [*("--entrypoint", sys.executable, IMAGE), "-u", "-m", "http.server"]
    host.docker(*BRIDGED, *server, "--bind", "127.0.0.1", "8000")
    eventually(lambda: "Serving" in host.docker("logs", "box"))
    script = f"exec {sys.executable} -c '{_TRIES}'"
    variable = {OWN_MOUNTS_VARIABLE: "1"} if own_mounts else {}
    assert ended(host, *ATTACHED, script, **variable) == (0, "200 ['lo']\n", "")


_TRIES = (
    "import http.client, socket; "
    'c = http.client.HTTPConnection("127.0.0.1", 8000); c.request("GET", "/"); '
    "print(c.getresponse().status, [name for _, name in socket.if_nameindex()])"
)


@pytest.mark.parametrize("how", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_it_ends_with_its_command(host: Host, how: signal.Signals) -> None:
    """A signal to `docker run`, as from a shell whose terminal is gone, ends the container."""
    host.start("sleep 60")
    with docker(host, *ATTACHED, WAITS) as (run, _, output):
        assert output.readline() == "up\n"
        run.send_signal(how)
        assert run.wait(timeout=60) == 128 + signal.SIGTERM
    assert names(host) == ["box"]


def test_it_ends_with_its_input(host: Host) -> None:
    """Where `docker run` is killed, the end of the input still reaches the container."""
    host.start("sleep 60")
    with docker(host, *ATTACHED, WAITS) as (run, given, output):
        assert output.readline() == "up\n"
        run.kill()
        run.wait()
        assert names(host) == ["box", "load"]
        given.close()
        assert output.read() == "over\n"
    eventually(lambda: names(host) == ["box"])


def test_what_cannot_be_attached_says_why(host: Host) -> None:
    """A name that is taken, a network of nobody, an image that is not there and may not be pulled,
    and a program that is not there are docker's own errors."""
    assert "No such container: box" in ended(host, *ATTACHED, "true")[2]
    host.start("sleep 60")
    named = [*ATTACHED[:-4], "--name", "box", *ATTACHED[-4:]]
    assert 'The container name "/box" is already in use' in ended(host, *named, "true")[2]
    none = ["/no/such" if word == "/bin/sh" else word for word in ATTACHED]
    assert ended(host, *none, "true")[0] == 127
    host.docker("stop", "box")
    assert "cannot join network of a non running container" in ended(host, *ATTACHED, "true")[2]
    (host.image / "complete").unlink()
    said = f"docker: Error response from daemon: No such image: {IMAGE}\n"
    assert ended(host, *ATTACHED, "true") == (125, "", said)
    assert names(host) == ["box"]
