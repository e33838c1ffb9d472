"""P5: hostile code in the serving container finds no token, no way out, no other host's ports.

The container is started with the options that the startup script writes, by the embedded cloud's
docker, which gives it a real network namespace.
"""

from __future__ import annotations

import io
import json
import shlex
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from embedded_cloud.machines.docker import shim
from embedded_cloud.machines.docker.commands import Docker
from embedded_cloud.machines.docker.containers import Containers
from embedded_cloud.machines.images import embedded_image, image_directory, read_lock
from tests.security import hostile
from tests.startup.cloud import FILES
from tests.startup.host import StartupHost

IMAGE = embedded_image()
HOSTILE = [sys.executable, "-I", "-S", hostile.__file__]
TOKEN = "computeMetadata/v1/instance/service-accounts/default/token"

pytestmark = pytest.mark.skipif(
    subprocess.run([sys.executable, shim.__file__], capture_output=True, check=False).returncode
    != 0,
    reason="this system lets its user make no network namespace, and the container falls back",
)


class Neighbour(ThreadingHTTPServer):
    """A service of another host, or of this one: anything that listens beside the container."""

    def __init__(self, address: str) -> None:
        super().__init__((address, 0), Answer)
        self.url = f"http://{address}:{self.server_address[1]}/"
        self.asked = 0
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()


class Answer(BaseHTTPRequestHandler):
    """Counts who comes."""

    server: Neighbour

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer with something worth having."""
        self.server.asked += 1
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"internal")


@dataclass(frozen=True)
class Break:
    """What the hostile code did: every try, with what it got."""

    tries: dict[str, str | None]

    @property
    def successes(self) -> dict[str, str]:
        """The tries that got something."""
        return {name: got for name, got in self.tries.items() if got is not None}


class Place:
    """A host on which the startup script has run, and a docker for what it would have started."""

    def __init__(self, directory: Path) -> None:
        self.startup = StartupHost(directory / "host")
        self.startup.cloud.put_weights(FILES)
        self.startup.run()
        home = directory / "home"
        image = image_directory(read_lock(), home)
        image.mkdir(parents=True)
        (image / "complete").touch()
        self.containers = Containers(directory / "docker", directory / "docker" / "root")
        self.containers.host.mkdir()
        self.home = home
        self.docker("network", "create", "tpuflex")

    def docker(self, *arguments: str) -> str:
        """The output of a docker command."""
        out = io.StringIO()
        Docker(self.containers, self.home, out, io.StringIO()).run(list(arguments))
        return out.getvalue()

    def options(self, port: int) -> list[str]:
        """The options of the script's `docker run`, with the container's port at ``port``."""
        words = shlex.split(self.startup.docker_calls("run")[0])
        options = words[: words.index("--entrypoint")]
        options[options.index("--publish") + 1] = f"127.0.0.1:{port}:8000"
        return options

    def break_in(self, options: list[str], urls: list[str]) -> Break:
        """Start the hostile code with these options, and wait for what it reports."""
        log = self.log_of(options, *HOSTILE, *urls)
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        return Break({line["try"]: line["got"] for line in lines})

    def log_of(self, options: list[str], *command: str) -> str:
        """Start ``command`` in a container with these options; its log, as soon as it says done."""
        self.docker(*options, "--entrypoint", command[0], IMAGE, *command[1:])
        deadline = time.monotonic() + 60
        while "done" not in (log := self.docker("logs", "vllm")):
            assert time.monotonic() < deadline, log
            time.sleep(0.02)
        return log

    def close(self) -> None:
        """End the container and the host."""
        for container in self.containers.all():
            self.containers.remove(container)
        self.startup.close()


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """A host, ended with the test."""
    place = Place(tmp_path)
    yield place
    place.close()


@pytest.fixture
def neighbours() -> Iterator[list[Neighbour]]:
    """Services of this host and of two others."""
    servers = [Neighbour(address) for address in ("127.0.0.1", "127.0.0.2", "127.77.0.9")]
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def free_port() -> int:
    """A port that nobody uses."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_every_try_of_a_broken_server_is_refused(place: Place, neighbours: list[Neighbour]) -> None:
    """S13: token, egress, names, media and other hosts' ports: each is tried, none is reached."""
    urls = [f"{place.startup.url}/{TOKEN}", *(server.url for server in neighbours)]
    broken = place.break_in(place.options(free_port()), urls)

    expected = len(urls) + 2 * len(hostile.EGRESS) + len(hostile.NAMES) + 1
    assert len(broken.tries) == expected == 18
    assert broken.successes == {}
    assert [server.asked for server in neighbours] == [0, 0, 0]


def test_the_same_tries_succeed_with_the_rights_of_the_host(
    place: Place, neighbours: list[Neighbour]
) -> None:
    """The tries are real ones: on the host's network token and services can be read."""
    urls = [f"{place.startup.url}/{TOKEN}", *(server.url for server in neighbours)]
    run = ["run", "--detach", "--name", "vllm", "--network", "host", "--privileged"]
    # Nothing outside of loopback is tried here: the machine has a network.
    alone = ["-c", f"import json,sys;sys.path.insert(0,{str(Path(hostile.__file__).parent)!r})\n"]
    alone[1] += (
        "import hostile\nfor url in sys.argv[1:]:\n"
        "  print(json.dumps({'try': url, 'got': hostile.fetch(url)}))\nprint('done')"
    )
    log = place.log_of(run, sys.executable, *alone, *urls)
    got = [json.loads(line)["got"] for line in log.splitlines() if line.startswith("{")]
    assert "ya29.host" in got[0]
    assert got[1:] == ["internal"] * 3


def test_clients_reach_the_server_on_the_hosts_address(place: Place) -> None:
    """The published port, and nothing else, leads into the container."""
    port = free_port()
    place.break_in(place.options(port), [])
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
        assert answer.status == 200
    with socket.socket() as other:
        assert other.connect_ex(("127.0.0.1", 8000)) != 0 or port == 8000


def test_the_container_has_lost_its_rights(place: Place) -> None:
    """S13: no capability can be had in it, by whatever program."""
    options = place.options(free_port())
    show = "grep -E 'CapBnd|CapEff|NoNewPrivs' /proc/self/status; echo done"
    log = place.log_of(options, "/bin/sh", "-c", show)
    rights = dict(line.split(":\t") for line in log.splitlines() if ":\t" in line)
    resource = 1 << 24
    assert int(rights["CapBnd"], 16) & ~resource == 0
    assert int(rights["CapEff"], 16) & ~resource == 0
    assert rights["NoNewPrivs"] == "1"
