"""The stand-in's containers: real processes that start, restart, stop and leave nothing behind."""

from __future__ import annotations

import io
import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from embedded_cloud.machines.docker import shim
from embedded_cloud.machines.docker.commands import Docker
from embedded_cloud.machines.docker.containers import Containers, DockerError
from embedded_cloud.machines.docker.shim import open_door
from embedded_cloud.machines.hosts.processes import is_alive, kill_host
from embedded_cloud.machines.images import embedded_image, image_directory, read_lock
from tests.embedded_cloud.api import eventually

IMAGE = embedded_image()
RUN = ["run", "-d", "--network", "host"]
RIGHTS = ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
BRIDGED = ["run", "-d", "--network", "bridge0", "--name", "box", *RIGHTS]

with_namespaces = pytest.mark.skipif(
    subprocess.run([sys.executable, shim.__file__], capture_output=True, check=False).returncode
    != 0,
    reason="this system lets its user make no network namespace",
)


class Host:
    """A host with docker, and an image whose programs are this machine's."""

    def __init__(self, directory: Path) -> None:
        home = directory / "home"
        self.image = image_directory(read_lock(), home)
        self.image.mkdir(parents=True)
        (self.image / "complete").touch()
        self.containers = Containers(directory / "host", directory / "host" / "root")
        self.home = home

    def docker(self, *arguments: str) -> str:
        """The output of a docker command."""
        out = io.StringIO()
        Docker(self.containers, self.home, out, io.StringIO()).run(list(arguments))
        return out.getvalue()

    def start(self, script: str, *options: str) -> str:
        """Start a container called box that runs a shell script."""
        shell = ["--entrypoint", "/bin/sh", IMAGE, "-c", script]
        return self.docker(*RUN, "--name", "box", *options, *shell)

    def inspect(self) -> dict[str, Any]:
        """The output of `docker inspect box`."""
        (found,) = json.loads(self.docker("inspect", "box"))
        assert isinstance(found, dict)
        return found


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A host; processes left on it are killed at the end."""
    host = Host(tmp_path)
    yield host
    for container in host.containers.all():
        host.containers.remove(container)


def test_a_home_is_the_images_at_first(host: Host) -> None:
    """A container finds what its image has in its home; what it writes there is its own."""
    note = host.image.joinpath("home", ".cache", "note")
    note.parent.mkdir(parents=True)
    note.write_text("of the image\n")
    host.start("cat ~/.cache/note; echo mine >~/.cache/note")
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    assert host.docker("logs", "box") == "of the image\n"
    assert note.read_text() == "of the image\n"


def test_answers_through_a_door_go_out_at_once() -> None:
    """A published port does not wait for an acknowledgement before it sends a small answer."""
    listener, inside = open_door("127.0.0.1:0:8000")
    with listener, socket.create_connection(listener.getsockname()):
        accepted, _ = listener.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    assert inside == 8000


def test_a_docker_command_loads_no_server() -> None:
    """A host runs docker every few seconds, beside a server that starts on the same cores."""
    program = "import sys, embedded_cloud.machines.docker.__main__; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert {"aiohttp", "asyncio", "pydantic", "grpc"}.isdisjoint(loaded)


def test_command_runs_with_only_its_environment(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A container sees the image's variables and its own, and nothing of the host's."""
    monkeypatch.setenv("HOST_SECRET", "canary")
    host.start("env; pwd", "-e", "PLAIN=two words")
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    printed = host.docker("logs", "box").splitlines()
    assert "PLAIN=two words" in printed
    assert "VLLM_TARGET_DEVICE=cpu" in printed
    assert not [line for line in printed if "canary" in line or line.startswith("TPUFLEX")]
    assert printed[-1] == str(host.containers.files("box"))


def test_temporary_directory_is_short_and_the_containers_own(host: Host) -> None:
    """TMPDIR is short enough for sockets in any project, and is in the root."""
    host.start('echo "$TMPDIR"; echo there >"$TMPDIR/file"')
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    assert len(host.docker("logs", "box").strip()) < 40
    assert (host.containers.files("box") / "tmp" / "file").read_text() == "there\n"


def test_inspect_shows_labels_image_and_state(host: Host) -> None:
    """`docker inspect` has docker's form for what startup scripts read."""
    host.start("sleep 60", "--label", "tpuflex.spec=abc")
    found = host.inspect()
    assert found["State"]["Status"] == "running"
    assert found["State"]["Running"] is True
    assert found["Config"]["Labels"] == {"tpuflex.spec": "abc"}
    assert found["Config"]["Image"] == IMAGE
    assert found["RestartCount"] == 0


def test_restart_policy_starts_it_again(host: Host) -> None:
    """A container that ends is started again, and the restarts are counted."""
    host.start("echo once; exit 3", "--restart", "unless-stopped")
    eventually(lambda: host.inspect()["RestartCount"] >= 2)
    assert host.inspect()["State"]["ExitCode"] == 3
    assert host.docker("logs", "box").count("once") >= 2
    host.docker("stop", "box")
    assert host.inspect()["State"]["Status"] == "exited"


def test_without_restart_policy_it_stays_ended(host: Host) -> None:
    """`--restart no` is the default; the exit code is kept."""
    host.start("exit 4")
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    assert host.inspect()["State"]["ExitCode"] == 4
    assert host.inspect()["RestartCount"] == 0


def test_stop_lets_it_end(host: Host) -> None:
    """`docker stop` sends SIGTERM and does not restart the container."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    host.start(script, "--restart", "unless-stopped")
    eventually(lambda: "up" in host.docker("logs", "box"))
    host.docker("stop", "box")
    assert host.docker("logs", "--tail", "1", "box") == "bye\n"
    assert host.inspect()["State"]["Status"] == "exited"


def test_stop_kills_what_ignores_it(host: Host) -> None:
    """A process that ignores SIGTERM is killed after the grace period."""
    host.start("trap '' TERM; echo up; while :; do sleep 0.05; done")
    eventually(lambda: "up" in host.docker("logs", "box"))
    host.docker("stop", "-t", "0", "box")
    assert host.inspect()["State"]["Status"] == "exited"


def test_restart_begins_anew(host: Host) -> None:
    """`docker restart` ends a container as `stop` does, if it runs, and starts it: the same words,
    and what the restart policy had counted is forgotten."""
    script = "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    host.start(script, "--restart", "unless-stopped")
    for times in (2, 3):
        eventually(lambda times=times: host.docker("logs", "box").count("up") == times - 1)  # type: ignore[misc]
        host.docker("restart", "--time", "5", "box")
        eventually(lambda times=times: host.docker("logs", "box").count("up") == times)  # type: ignore[misc]
        assert host.inspect()["State"]["Status"] == "running"
        assert host.inspect()["RestartCount"] == 0
    host.docker("stop", "box")
    host.docker("restart", "box")
    assert host.inspect()["State"]["Status"] == "running"


def test_rm_kills_grandchildren_in_sessions_of_their_own(host: Host) -> None:
    """Everything that a container started is gone after `docker rm -f`, in any session."""
    host.start("setsid sleep 1000 & echo $!; sleep 1000")
    eventually(lambda: host.docker("logs", "box") != "")
    hidden = int(host.docker("logs", "box"))
    assert psutil.pid_exists(hidden)
    host.docker("rm", "-f", "box")
    eventually(lambda: not psutil.pid_exists(hidden))
    assert host.docker("ps", "-a").count("\n") == 1
    assert not host.containers.files("box").exists()
    assert list((host.containers.host / "containers").iterdir()) == []


def test_what_the_first_process_leaves_behind_ends_with_it(host: Host) -> None:
    """As in a container, the end of the first process is the end of all."""
    host.start("setsid sleep 1000 & echo $!; exit 0")
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    assert not psutil.pid_exists(int(host.docker("logs", "box")))


def test_record_names_the_process_that_ends_with_the_host(host: Host) -> None:
    """The record carries pid and start time of the supervisor, leader of a group of its own."""
    host.start("sleep 60")
    record = json.loads(host.containers.record("box").read_text())
    supervisor = psutil.Process(record["pid"])
    assert supervisor.create_time() == record["create_time"]
    assert os.getpgid(record["pid"]) == record["pid"]


def test_container_whose_processes_were_killed_is_exited(host: Host) -> None:
    """After a reboot of the host a record says running, but `docker inspect` says exited."""
    host.start("sleep 60", "--restart", "unless-stopped")
    container = host.containers.require("box")
    psutil.Process(container.pid).kill()
    eventually(lambda: not host.containers.require("box").alive())
    assert host.inspect()["State"]["Status"] == "exited"


def test_a_container_without_its_supervisor_ends_with_its_host(host: Host) -> None:
    """Nothing of the host is in its environment: the container's record tells its session."""
    host.start("echo $$; exec sleep 60")
    eventually(lambda: bool(host.docker("logs", "box")))
    command = psutil.Process(int(host.docker("logs", "box")))
    psutil.Process(host.containers.require("box").pid).kill()
    eventually(lambda: not host.containers.require("box").alive())
    assert is_alive(command)
    assert kill_host(host.containers.host) == 1
    assert not is_alive(command)


@pytest.mark.parametrize(
    ("supervisor", "within", "why"),
    [
        ("raise ValueError('the image is damaged')", 60.0, "ValueError: the image is damaged"),
        ("raise SystemExit(3)", 60.0, "its supervisor ended with 3"),
        ("import time; time.sleep(600)", 0.5, "its supervisor took more than 0.5 s"),
    ],
)
def test_container_that_does_not_start_says_why(
    host: Host, monkeypatch: pytest.MonkeyPatch, supervisor: str, within: float, why: str
) -> None:
    """What keeps it running fails, or takes too long: docker says so, and nothing runs on."""
    python = host.home / "python"
    python.write_text(f"#!/bin/sh\nexec {sys.executable} -c {shlex.quote(supervisor)}\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    monkeypatch.setattr("embedded_cloud.machines.docker.commands.WITHIN", within)
    before = {child.pid for child in psutil.Process().children()}
    with pytest.raises(DockerError, match=f"the container did not start: {why}$"):
        host.start("sleep 60")
    assert {child.pid for child in psutil.Process().children()} <= before
    assert host.inspect()["State"]["Status"] == "created"
    host.docker("rm", "box")
    assert list((host.containers.host / "containers").iterdir()) == []


@with_namespaces
def test_a_published_port_that_is_taken_is_refused(host: Host) -> None:
    """As docker does: a container that is said to run is the one that answers on its port."""
    host.containers.host.mkdir(exist_ok=True)
    host.docker("network", "create", "bridge0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        run = [*BRIDGED, "--publish", f"127.0.0.1:{port}:8000", "--entrypoint", "/bin/sh", IMAGE]
        with pytest.raises(DockerError, match=f"Bind for 127.0.0.1:{port} failed"):
            host.docker(*run, "-c", "sleep 60")
    assert host.inspect()["State"]["Status"] == "created"
    host.docker("restart", "box")
    assert host.inspect()["State"]["Status"] == "running"
    with pytest.raises(OSError, match="in use"):
        socket.create_server(("127.0.0.1", port))


def test_name_is_taken_until_removed(host: Host) -> None:
    """Two containers cannot share a name; `rm -f` frees it."""
    host.start("sleep 60")
    with pytest.raises(DockerError, match="already in use"):
        host.start("sleep 60")
    host.docker("rm", "-f", "box")
    host.start("sleep 60")


def test_running_container_is_not_removed_without_force(host: Host) -> None:
    """`docker rm` of a running container is refused."""
    host.start("sleep 60")
    with pytest.raises(DockerError, match="it is running"):
        host.docker("rm", "box")


def test_program_that_does_not_exist_is_in_the_log(host: Host) -> None:
    """A command that cannot be executed ends with 127 and says so."""
    host.docker(*RUN, "--name", "box", "--entrypoint", "/no/such", IMAGE)
    eventually(lambda: host.inspect()["State"]["Status"] == "exited")
    assert host.inspect()["State"]["ExitCode"] == 127
    assert "/no/such" in host.docker("logs", "box")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["exec", "c", "sh"], "exec"),
        (["image", "prune"], "image inspect"),
        (["inspect", "nothing"], "No such object"),
        (["rm", "-f", "nothing"], "No such container"),
        (["logs", "--follow", "c"], "--follow"),
        (["pull", "vllm/vllm-tpu:latest"], "cannot run the image"),
        (["pull", "tpuflex/vllm-cpu@sha256:" + "0" * 64], "not the version"),
        (["image", "inspect", "debian"], "cannot run the image"),
    ],
)
def test_unknown_commands_names_and_images_are_refused(
    host: Host, arguments: list[str], message: str
) -> None:
    """The refusal names what the stand-in does not have."""
    with pytest.raises(DockerError) as caught:
        host.docker(*arguments)
    assert message in caught.value.message


def test_pull_and_inspect_of_an_installed_image(host: Host) -> None:
    """Once installed, the image is there and a pull does nothing."""
    assert host.docker("pull", IMAGE).strip() == IMAGE
    (found,) = json.loads(host.docker("image", "inspect", IMAGE))
    assert found["RepoDigests"] == [IMAGE]
    assert host.docker("info")
