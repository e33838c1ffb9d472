"""P3: during `up`, before and after kill -9, no listening port of ours opens to a second user."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from embedded_cloud.core.address import read_address
from pulumi_plugin.protocol import provider_pb2
from reliability import processes
from reliability.rig import StackRig
from tests.security.strangers import (
    ask_grpc,
    ask_http,
    grpc_spellings,
    needs_second_uid,
    spellings,
)

pytestmark = [pytest.mark.engine, needs_second_uid, pytest.mark.timeout(300)]

_PROVIDER = provider_pb2.DESCRIPTOR.services_by_name["ResourceProvider"]
#: All methods of our plugins and of the Automation API's servers in our process.
_METHODS = [
    *(f"/pulumirpc.ResourceProvider/{method.name}" for method in _PROVIDER.methods),
    *(
        f"/pulumirpc.LanguageRuntime/{name}"
        for name in ("Run", "About", "GetPluginInfo", "GetRequiredPlugins", "GetRequiredPackages")
    ),
    "/pulumirpc.Events/StreamEvents",
]
#: What a server may answer to a stranger: nothing, a refusal, or that it does not know the method.
_CLOSED = {"PERMISSION_DENIED", "UNIMPLEMENTED", "UNAVAILABLE"}


@dataclass(frozen=True)
class Running:
    """An `up` that waits for capacity.

    Attributes:
        rig: its project and its embedded cloud.
        command: the command line.
    """

    rig: StackRig
    command: subprocess.Popen[bytes]

    def emulator(self) -> psutil.Process:
        """The embedded cloud's process."""
        address = read_address(self.rig.home / ".tpuflex" / "emulator")
        assert address is not None
        return psutil.Process(address.pid)

    def family(self) -> list[psutil.Process]:
        """Every process of the command and of the embedded cloud."""
        roots = [psutil.Process(self.command.pid), self.emulator()]
        return [*roots, *(child for root in roots for child in root.children(recursive=True))]


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """An `up` whose request is in the queue."""
    with StackRig(tmp_path / "project", speed=20) as rig:
        rig.control.strict()
        rig.control.capacity(never=True)
        with subprocess.Popen(
            rig.command(["up"]),
            cwd=rig.home,
            env={**rig.environ(), processes.MARK: rig.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as command:
            try:
                _await_request(rig, command)
                yield Running(rig, command)
            finally:
                _end(command)


def _await_request(rig: StackRig, command: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 200
    while not any("queuedResources.create" in call["method_id"] for call in rig.control.history()):
        assert command.poll() is None, command.communicate()[0].decode()
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _end(command: subprocess.Popen[bytes]) -> None:
    family = [psutil.Process(command.pid)] if command.poll() is None else []
    family += [child for root in list(family) for child in root.children(recursive=True)]
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    command.communicate()


def _listening(family: list[psutil.Process]) -> dict[int, psutil.Process]:
    """Port -> process of the rows in state LISTEN of /proc/net/tcp and tcp6."""
    return {
        int(connection.laddr[1]): process
        for process in family
        if process.is_running()
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    }


def _is_engine(process: psutil.Process) -> bool:
    return Path(process.cmdline()[0]).name == "pulumi"


def _doors(ports: list[int], tokens: list[str]) -> list[object]:
    """Everything that a second user was let in to."""
    open_: list[object] = []
    for port in ports:
        codes = ask_grpc(grpc_spellings(port), _METHODS)
        open_ += [(port, code) for code in codes if code not in _CLOSED]
        requests = [
            (method, path, {"Metadata-Flavor": "Google", **bearer})
            for bearer in ({}, *({"Authorization": f"Bearer {token}"} for token in tokens))
            for method, path in (
                ("GET", "/"),
                ("GET", "/_emulator/health"),
                ("POST", "/_emulator/reset"),
                ("GET", "/v2alpha1/projects/tpuflex-dev/locations/us-east5-a/nodes"),
                ("GET", "/computeMetadata/v1/instance/id"),
            )
        ]
        answers = ask_http(spellings(port), requests)
        open_ += [(port, status) for status, _ in answers if status not in (0, 400, 403)]
    return open_


def test_no_door_opens_to_a_second_user(running: Running) -> None:
    """S2, S3: every method of every port of ours, over IPv4, plain and mapped to IPv6, before and
    after kill -9 of the embedded cloud: 0 doors."""
    stale, fresh = "ya29.tpuflex-embedded.stale", running.rig.control.token
    family = running.family()
    listening = _listening(family)
    ours = [port for port, process in listening.items() if not _is_engine(process)]
    assert len(ours) == 5, listening  # emulator, stand-in, provider, two servers of the command
    assert _doors(ours, [stale, fresh]) == []

    emulator = running.emulator()
    of_emulator = [emulator, *emulator.children(recursive=True)]
    os.kill(emulator.pid, signal.SIGKILL)
    assert _doors(ours, [stale, fresh]) == []
    assert psutil.wait_procs(of_emulator, timeout=20)[1] == []
    left = _listening([process for process in family if process.is_running()])
    assert {left[port].pid for port in ours if port in left}.isdisjoint(
        process.pid for process in of_emulator
    )
