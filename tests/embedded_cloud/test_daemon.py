"""The embedded cloud as a process: start, status, stop, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from embedded_cloud import daemon
from embedded_cloud.core.access import read_token
from embedded_cloud.core.address import ADDRESS_FILE
from embedded_cloud.core.environment import client_environment
from tests.embedded_cloud.api import AT_ONCE, Api, flex_start
from tpuflex.errors import EmulatorError


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    """A state directory; what a test starts in it is stopped."""
    directory = tmp_path / "home" / "emulator"
    yield directory
    daemon.stop(directory)


def _boot_host(api: Api) -> None:
    body = flex_start(metadata={"startup-script": "(env -i setsid sleep 3600 &) ; sleep 3600"})
    assert api.create(body=body).status_code == 200


def _sleepers(state_dir: Path) -> list[psutil.Process]:
    """The processes of the host, once both exist."""
    from embedded_cloud.machines.hosts.processes import processes_of

    deadline = time.monotonic() + 60
    while True:
        found = processes_of(state_dir / "hosts" / "n1")
        if [" ".join(process.cmdline()) for process in found].count("sleep 3600") == 2:
            return found
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_starts_answers_and_stops(state_dir: Path) -> None:
    """start gives the address, status finds it, stop ends it and removes the record."""
    assert daemon.status(state_dir) is None
    address = daemon.start(state_dir, port=0)
    assert daemon.status(state_dir) is not None
    assert Api(address.url, token=read_token(state_dir)).get("nodes") == {}
    assert (state_dir / "token").read_text().startswith("ya29.tpuflex-embedded")
    assert (state_dir / "token").stat().st_mode & 0o077 == 0
    process = psutil.Process(address.pid)
    assert daemon.stop(state_dir) is True
    assert psutil.wait_procs([process], timeout=60)[1] == []
    assert not (state_dir / ADDRESS_FILE).exists()
    assert daemon.status(state_dir) is None
    assert daemon.stop(state_dir) is False


def test_it_listens_on_loopback_only(state_dir: Path) -> None:
    """No other address of the machine is bound."""
    address = daemon.start(state_dir, port=0)
    listening = [
        str(connection.laddr[0])
        for connection in psutil.Process(address.pid).net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert listening == ["127.0.0.1"]


def test_starting_twice_gives_the_same_process(state_dir: Path) -> None:
    """One emulator per state directory; another port is a conflict that says what to do."""
    first = daemon.start(state_dir, port=0)
    again = daemon.start(state_dir, port=0, capacity={"never": True})
    assert again.pid == first.pid
    assert (
        Api(first.url, token=read_token(state_dir))
        .call("GET", "/_emulator/capacity")
        .json()["never"]
        is True
    )
    with pytest.raises(EmulatorError) as caught:
        daemon.start(state_dir, port=1)
    assert first.url in caught.value.message
    assert "tpuflex emulator stop" in str(caught.value.hint)


def test_a_port_in_use_is_named_with_its_holder(state_dir: Path) -> None:
    """The error names the port, the process that uses it, and what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(EmulatorError) as caught:
            daemon.start(state_dir, port=port)
    assert f"port {port} of 127.0.0.1 is taken by process {os.getpid()}" in caught.value.message
    assert "--port 0" in str(caught.value.hint)
    assert daemon.status(state_dir) is None


def test_rules_that_are_not_understood_stop_the_start(state_dir: Path) -> None:
    """Capacity given at the start is checked like capacity set later."""
    with pytest.raises(EmulatorError, match="grant_after"):
        daemon.start(state_dir, port=0, capacity={"grant_after": 1})


def test_the_plugin_listens_soon_after(state_dir: Path) -> None:
    """The stand-in for the gcp provider runs beside it and the engine knows its port."""
    daemon.start(state_dir, port=0)
    address = daemon.wait_for_plugin(state_dir)
    assert address.gcp_plugin_port is not None
    with socket.create_connection(("127.0.0.1", address.gcp_plugin_port), timeout=60):
        pass
    environment = client_environment(
        base_url=address.url, state_dir=state_dir, gcp_plugin_port=address.gcp_plugin_port
    )
    assert environment["PULUMI_DEBUG_PROVIDERS"] == f"gcp:{address.gcp_plugin_port}"
    children = psutil.Process(address.pid).children(recursive=True)
    assert children
    daemon.stop(state_dir)
    assert psutil.wait_procs(children, timeout=60)[1] == []


def test_sigterm_ends_the_hosts_too(state_dir: Path) -> None:
    """A clean end leaves no process, not even one that tried to escape."""
    address = daemon.start(state_dir, port=0, capacity=AT_ONCE)
    _boot_host(Api(address.url, token=read_token(state_dir)))
    sleepers = _sleepers(state_dir)
    os.kill(address.pid, signal.SIGTERM)
    assert psutil.wait_procs(sleepers, timeout=60)[1] == []


def test_a_killed_emulator_is_replaced_and_its_leftovers_ended(state_dir: Path) -> None:
    """kill -9, then start: the record is stale, old hosts are killed, the node boots again."""
    first = daemon.start(state_dir, port=0, capacity=AT_ONCE)
    daemon.wait_for_plugin(state_dir)
    _boot_host(Api(first.url, token=read_token(state_dir)))
    left = [*_sleepers(state_dir), *psutil.Process(first.pid).children()]
    os.kill(first.pid, signal.SIGKILL)
    psutil.wait_procs([psutil.Process(first.pid)] if psutil.pid_exists(first.pid) else [], 5)
    assert daemon.status(state_dir) is None
    second = daemon.start(state_dir, port=0)
    assert second.pid != first.pid
    daemon.wait_for_plugin(state_dir)
    assert psutil.wait_procs(left, timeout=60)[1] == []
    assert Api(second.url, token=read_token(state_dir)).state() == "ACTIVE"
    assert {process.pid for process in _sleepers(state_dir)}.isdisjoint(
        process.pid for process in left
    )


def test_a_record_of_a_dead_process_is_ignored(state_dir: Path) -> None:
    """A stale address is ignored, even if its process id and port are in use again."""
    address = daemon.start(state_dir, port=0)
    record = json.loads((state_dir / ADDRESS_FILE).read_text())
    other = state_dir.parent / "other"
    other.mkdir()
    (other / ADDRESS_FILE).write_text(json.dumps({**record, "pid": 1}))
    assert daemon.status(other) is None
    (other / ADDRESS_FILE).write_text(json.dumps({**record, "create_time": 1.0}))
    assert daemon.stop(other) is False
    assert psutil.pid_exists(address.pid)
    (other / ADDRESS_FILE).write_text("{")
    assert daemon.status(other) is None


def test_reset_empties_the_state_of_a_stopped_emulator(state_dir: Path) -> None:
    """Running or not, a reset forgets everything."""
    address = daemon.start(state_dir, port=0, capacity={"never": True})
    assert Api(address.url, token=read_token(state_dir)).create().status_code == 200
    daemon.stop(state_dir)
    daemon.reset(state_dir)
    address = daemon.start(state_dir, port=0)
    assert (
        Api(address.url, token=read_token(state_dir)).call("GET", "/_emulator/inventory").json()
        == {}
    )


def test_it_is_up_within_a_second(tmp_path: Path) -> None:
    """From the command to a served request, with nothing heavy imported on the way."""
    command = [sys.executable, "-X", "importtime", "-m", "embedded_cloud.process"]
    process = subprocess.Popen(
        [*command, "--state-dir", str(tmp_path / "emulator"), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert "port" in json.loads(process.stdout.readline())
    process.send_signal(signal.SIGTERM)
    _, log = process.communicate(timeout=20)
    imported = {line.rpartition("|")[2].strip() for line in log.splitlines() if "|" in line}
    # Imports that would cost more than the whole start. A limit on the time would fail on a busy
    # machine.
    assert not imported & {"googleapiclient", "pulumi", "grpc", "google.cloud", "pydantic"}
    assert process.returncode == 0


def test_without_the_packages_of_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installation without the extra says what to install, and starts nothing."""
    monkeypatch.setattr(daemon, "_EXTRA", {"aiohttp": "aiohttp", "no_such_module": "no-such"})

    with pytest.raises(EmulatorError, match="needs no-such, and") as caught:
        daemon.start(tmp_path / "emulator", port=0)

    assert str(caught.value.hint) == "Install it with them: pip install 'tpuflex[embedded]'"
    assert not (tmp_path / "emulator").exists()
