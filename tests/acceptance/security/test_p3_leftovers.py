"""P3: nothing outlives its owner with an open port, and what is left behind is not believed."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pulumi
import pytest

from embedded_cloud import daemon
from embedded_cloud.core.access import read_token
from embedded_cloud.core.address import ADDRESS_FILE, Address, write_address
from embedded_cloud.core.environment import client_environment
from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import Api, flex_start
from tests.security.strangers import needs_second_uid, start_as_stranger
from tests.unit.stack_sections import sections
from tpuflex.components.cloud import require_matching_cloud
from tpuflex.errors import AccessError, EmulatorError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.google.endpoints import Endpoints
from tpuflex.google.session import authorized_session
from tpuflex.operate.endpoint_connection import session
from tpuflex.operate.question import Question, stream_answer
from tpuflex.settings.load import parse

_AT_ONCE: Any = {"admission_s": 0, "grant_after_s": 0, "provisioning_s": 0}

#: Listens on a port, takes every connection, and prints in the end what was sent on them. The last
#: connection is its own, so that none before it is missed.
_LISTENER = """
import json, socket, sys, threading
taken, own = [], socket.socket()
own.bind(("127.0.0.1", 0))
def serve(server):
    while True:
        connection, address = server.accept()
        if address == own.getsockname():
            return
        taken.append(connection)
server = socket.create_server((sys.argv[1], 0))
print(server.getsockname()[1], flush=True)
serving = threading.Thread(target=serve, args=(server,))
serving.start()
sys.stdin.readline()
own.connect(("127.0.0.1", server.getsockname()[1]))
serving.join()
heard = b""
for connection in taken:
    connection.settimeout(1)
    try:
        while data := connection.recv(4096):
            heard += data
    except OSError:
        pass
print(json.dumps(heard.decode()))
"""


@contextmanager
def _listening_stranger(address: str = "127.0.0.1") -> Iterator[tuple[int, Callable[[], str]]]:
    """A port that another user listens on, and what was sent to it in the end."""
    with start_as_stranger(_LISTENER, address) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())

        def heard() -> str:
            printed, errors = process.communicate("go\n", timeout=30)
            assert process.returncode == 0, errors
            return str(json.loads(printed))

        yield port, heard


@needs_second_uid
def test_the_listener_hears_what_is_sent() -> None:
    """The tests below would see a token: what was sent is heard, by one client or several."""
    with _listening_stranger() as (port, heard):
        for word in (b"first ", b"second"):
            with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
                client.sendall(word)
        assert heard() == "first second"


def _address(port: int) -> Address:
    """A record of this very process, as if it were an emulator at ``port``."""
    process = psutil.Process()
    return Address(process.pid, process.create_time(), port, None, "", "")


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state directory; what a test starts in it is stopped."""
    directory = tmp_path / "home" / "emulator"
    yield directory
    daemon.stop(directory)


def test_stand_in_and_hosts_end_with_a_killed_emulator(state_dir: Path) -> None:
    """S2: after kill -9 of the emulator nothing that it started listens, or runs, any more."""
    running = daemon.start(state_dir, port=0, capacity=_AT_ONCE)
    address = daemon.wait_for_plugin(state_dir)
    script = "(env -i setsid sleep 3600 &) ; sleep 3600"
    api = Api(running.url, token=read_token(state_dir))
    assert api.create(body=flex_start(metadata={"startup-script": script})).status_code == 200
    emulator = psutil.Process(address.pid)
    started = _until(lambda: _with_sleepers(emulator))
    os.kill(address.pid, signal.SIGKILL)
    _, alive = psutil.wait_procs(started, timeout=20)
    assert alive == []
    for port in (address.port, address.gcp_plugin_port):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def _with_sleepers(emulator: psutil.Process) -> list[psutil.Process]:
    """What the emulator has started, once both processes of the host are there."""
    family = emulator.children(recursive=True)
    names = [" ".join(process.cmdline()) for process in family]
    return family if names.count("sleep 3600") == 2 else []


def _until(look: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
    deadline = time.monotonic() + 60
    while True:
        try:
            if found := look():
                return found
        except psutil.NoSuchProcess:
            pass
        assert time.monotonic() < deadline
        time.sleep(0.02)


@needs_second_uid
def test_the_token_is_not_sent_to_whoever_took_the_port(state_dir: Path) -> None:
    """S8: the emulator is gone, a stranger has its port: it hears nothing, not even of a process
    that lives."""
    daemon.start(state_dir, port=0)
    daemon.stop(state_dir)
    with _listening_stranger() as (port, heard):
        write_address(state_dir, _address(port))
        try:
            assert daemon.status(state_dir) is None
        finally:
            (state_dir / ADDRESS_FILE).unlink()  # or `state_dir` would end this very process
        assert heard() == ""


@needs_second_uid
def test_no_client_sends_its_token_to_whoever_took_the_port(tmp_path: Path) -> None:
    """S8: nor do the clients of a command that is still running."""
    own_directory(tmp_path / "emulator")
    write_private(tmp_path / "emulator" / "token", "ya29.tpuflex-embedded.canary")
    with _listening_stranger() as (port, heard):
        environ = client_environment(
            base_url=f"http://127.0.0.1:{port}", state_dir=tmp_path / "emulator"
        )
        endpoints = Endpoints.from_environ(environ)
        with (
            authorized_session(endpoints, environ) as session,
            pytest.raises(AccessError, match="is another user's"),
        ):
            session.get(f"{endpoints.tpu}/v2/x", timeout=60)
        assert heard() == ""


@needs_second_uid
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.9", "127.1", "localhost", "0", "[::ffff:127.0.0.1]"]
)
def test_no_key_goes_to_a_stranger_of_this_machine(host: str) -> None:
    """S8: whatever cloud the stack is on, and however the end of a tunnel is called."""
    settings = parse(sections({"cloud": "google"}), "test")
    cloud: Any = SimpleNamespace(stack=SimpleNamespace(settings=settings))
    with _listening_stranger("") as (port, heard):
        endpoint = f"http://{host}:{port}/v1"
        question = Question(endpoint, "tiny", "Anybody there?")
        connections = session(cloud, endpoint)
        with pytest.raises(AccessError, match="is another user's"):
            stream_answer(question, "canary", show=print, now=time.monotonic, session=connections)
        assert heard() == ""


@needs_second_uid
def test_a_strangers_stand_in_is_not_given_to_the_engine(state_dir: Path) -> None:
    """S8: the engine tells the gcp plugin everything; a port of another user is none."""
    running = daemon.start(state_dir, port=0)
    address = daemon.wait_for_plugin(state_dir)
    with _listening_stranger() as (port, heard):
        forged = Address(**{**asdict(address), "gcp_plugin_port": port})
        write_address(state_dir, forged)
        with pytest.raises(EmulatorError, match="did not come up"):
            daemon.wait_for_plugin(state_dir, timeout_s=0.1)
        assert heard() == ""
    assert running.pid == address.pid


@needs_second_uid
def test_a_shell_does_not_hand_the_stack_to_a_stranger(tmp_path: Path) -> None:
    """S8: plain pulumi in a shell with the variables of an embedded cloud that has ended since."""
    own_directory(tmp_path / "emulator")
    write_private(tmp_path / "emulator" / "token", "ya29.tpuflex-embedded.canary")
    base = client_environment(base_url="http://127.0.0.1:9", state_dir=tmp_path / "emulator")
    with _listening_stranger() as (port, heard):
        environ = {**base, "PULUMI_DEBUG_PROVIDERS": f"gcp:{port}"}
        with pytest.raises(pulumi.RunError, match="is another user's"):
            require_matching_cloud("embedded", environ)
        assert heard() == ""
    require_matching_cloud("embedded", {**base, "PULUMI_DEBUG_PROVIDERS": "gcp:1"})


def test_a_running_client_gets_the_token_of_the_next_start(tmp_path: Path) -> None:
    """S8: the token of the environment is refused once; then the one in the file is taken."""
    with EmbeddedCloud(tmp_path / "a") as cloud:
        environ = dict(cloud.environ())
        environ["GOOGLE_OAUTH_ACCESS_TOKEN"] = "ya29.tpuflex-embedded.of-an-earlier-start"
        endpoints = Endpoints.from_environ(environ)
        url = f"{endpoints.tpu.rstrip('/')}/v2/projects/p/locations/us-east5-a/nodes"
        with authorized_session(endpoints, environ) as session:
            assert session.get(url, timeout=60).status_code == 401
            session.refresh_token()
            assert session.get(url, timeout=60).status_code == 200


def test_a_private_file_replaces_a_link(tmp_path: Path) -> None:
    """S8: what a link leads to, where a private file belongs, is not written to."""
    victim, path = tmp_path / "victim", tmp_path / "token"
    victim.write_text("untouched")
    path.symlink_to(victim)
    write_private(path, "x")
    assert (victim.read_text(), path.is_symlink(), path.read_text()) == ("untouched", False, "x")
    assert path.stat().st_mode & 0o777 == 0o600


def test_the_state_directory_is_closed(state_dir: Path) -> None:
    """S8: whatever the embedded cloud makes there, nobody else may read or write."""
    before = os.umask(0)
    try:
        daemon.start(state_dir, port=0)
    finally:
        os.umask(before)
    daemon.wait_for_plugin(state_dir)
    found = (state_dir, *state_dir.rglob("*"))
    assert [path.name for path in found if path.stat().st_mode & 0o077] == []


def test_a_taken_port_says_whose_it_is(state_dir: Path) -> None:
    """S8: whoever has the default port before the start is named, and nothing is sent there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(EmulatorError, match=f"port {port} of 127.0.0.1 is taken"):
            daemon.start(state_dir, port=port)
        server.settimeout(0.05)
        with pytest.raises(TimeoutError):
            server.accept()
