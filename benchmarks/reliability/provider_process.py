"""A real provider process, called over gRPC as the engine calls it, and its cloud on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, cast

import grpc
import psutil
from google.protobuf.empty_pb2 import Empty
from google.protobuf.struct_pb2 import Struct

from embedded_cloud.server import EmbeddedCloud
from pulumi_plugin.protocol import (
    engine_pb2,
    engine_pb2_grpc,
    provider_pb2,
    provider_pb2_grpc,
)
from pulumi_plugin.wire import encode
from reliability.control import Control
from reliability.projects import SWIFT, slice_arguments
from reliability.small_state import PROJECT, STACK
from tpuflex.naming import QUEUED_RESOURCE

Json = dict[str, Any]
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Weight:
    """What the process uses of the machine at one moment.

    Attributes:
        rss: bytes of memory in RAM.
        threads, files: how many.
    """

    rss: int
    threads: int
    files: int


class _EngineLog(engine_pb2_grpc.EngineServicer):
    """Counts the provider's log messages without storing them."""

    def __init__(self) -> None:
        self.lasting = 0
        self.passing = 0
        self.characters = 0

    def Log(self, request: engine_pb2.LogRequest, context: Any) -> Empty:  # noqa: N802
        """Count one message."""
        del context
        if request.ephemeral:
            self.passing += 1
        else:
            self.lasting += 1
        self.characters += len(request.message)
        return Empty()


class ProviderProcess:
    """``python -m tpuflex.provider.main``, its engine's log, and an embedded cloud.

    The cloud runs in the caller's process, so its memory does not count as the provider's.

    Attributes:
        control: the embedded cloud's control API.
        log: the provider's messages since :meth:`start`.
        process: the provider.
    """

    def __init__(self, home: Path) -> None:
        self._cloud = EmbeddedCloud(home / "emulator", capacity=dict(SWIFT))
        self._log_server: grpc.Server | None = None
        self._child: subprocess.Popen[str] | None = None
        self._channel: grpc.Channel | None = None
        self.control = Control("", "")
        self.log = _EngineLog()

    def __enter__(self) -> Self:
        self._cloud.__enter__()
        self.control = Control(self._cloud.url, self._cloud.token)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._cloud.__exit__(None, None, None)

    def start(self, *, speed: float = 1.0, capacity: Mapping[str, Any]) -> None:
        """Start a new provider process on an empty cloud, both at ``speed`` times real time."""
        self.stop()
        self.control.set_faults()
        self.control.call("POST", "reset", {})
        self.control.speed(speed)
        self.control.capacity(**capacity)
        self.log = _EngineLog()
        self._log_server = grpc.server(ThreadPoolExecutor(8))
        engine_pb2_grpc.add_EngineServicer_to_server(self.log, self._log_server)
        address = f"127.0.0.1:{self._log_server.add_insecure_port('127.0.0.1:0')}"
        self._log_server.start()
        self._child = subprocess.Popen(
            [sys.executable, "-P", "-m", "tpuflex.provider.main", address],
            stdout=subprocess.PIPE,
            text=True,
            env={
                "PATH": os.environ["PATH"],
                **self._cloud.environ(),
                "TPUFLEX_TIME_SPEED": str(speed),
                "TPUFLEX_TIME_ORIGIN": f"{time.time()}:{self.now()}",
            },
        )
        assert self._child.stdout is not None
        port = int(self._child.stdout.readline())
        self.process = psutil.Process(self._child.pid)
        self._channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = provider_pb2_grpc.ResourceProviderStub(self._channel)
        self.begin_run()

    def begin_run(self) -> None:
        """Have another run of the engine begin."""
        self.stub.Configure(provider_pb2.ConfigureRequest(), wait_for_ready=True, timeout=30)

    def stop(self) -> None:
        """End the provider, within its own grace period."""
        if self._channel is not None:
            self._channel.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            assert self._child.stdout is not None
            self._child.stdout.close()
        if self._log_server is not None:
            self._log_server.stop(0)
        self._channel = self._child = self._log_server = None

    def now(self) -> float:
        """The cloud's time."""
        return self._cloud.clock.now()

    def weigh(self) -> Weight:
        """What the provider uses now."""
        with self.process.oneshot():
            memory = int(self.process.memory_info().rss)
            return Weight(memory, self.process.num_threads(), self.process.num_fds())

    def create(self, name: str, inputs: Struct) -> Any:
        """Begin a create; return the call's future."""
        return self.stub.Create.future(provider_pb2.CreateRequest(urn=urn(name), properties=inputs))

    def checked(self, name: str, **more: Any) -> Struct:
        """Checked inputs as the engine passes them on."""
        request = provider_pb2.CheckRequest(
            urn=urn(name),
            news=encode({**slice_arguments(), **more}),
            randomSeed=b"seed",
            name=name,
            type=QUEUED_RESOURCE,
        )
        answer = self.stub.Check(request, timeout=60)
        assert not answer.failures, answer.failures
        return cast(Struct, answer.inputs)

    def queued(self) -> int:
        """How many queued resources the cloud has."""
        return len(self.control.inventory().get("tpu", {}).get("queuedResources", ()))


def urn(name: str) -> str:
    """The URN of the queued resource ``name``."""
    return f"urn:pulumi:{STACK}::{PROJECT}::{QUEUED_RESOURCE}::{name}"


def until(fact: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait in real time for another process to make ``fact`` true."""
    give_up = time.monotonic() + seconds
    pause = threading.Event()
    while not fact():
        if time.monotonic() > give_up:
            raise TimeoutError(f"{what} did not happen within {seconds:g} s")
        pause.wait(_LOOK_S)
