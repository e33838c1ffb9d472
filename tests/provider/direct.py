"""The servicer without gRPC: calls are made on it, and its API answers from a script."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.rpc import status_pb2

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from tests.provider.fakes import Cloud, FakeTime, Script
from tpuflex.google.queued_resources import TpuClient
from tpuflex.google.timing import Timing
from tpuflex.provider.configuration import Configuration
from tpuflex.provider.servicer import Servicer


class CallFailedError(Exception):
    """The provider answered with an error; ``kept`` is the partial state that came with it."""

    def __init__(self, status: grpc.Status) -> None:
        super().__init__(str(status.details))
        self.kept: provider_pb2.ErrorResourceInitFailed | None = None
        for key, value in status.trailing_metadata or ():
            if key == "grpc-status-details-bin":
                for detail in status_pb2.Status.FromString(value).details:
                    self.kept = provider_pb2.ErrorResourceInitFailed()
                    assert detail.Unpack(self.kept)


class Context:
    """A gRPC context: all that a servicer does with it is to end the call with an error."""

    def abort_with_status(self, status: grpc.Status) -> None:
        raise CallFailedError(status)


class Log(EngineLog):
    """Keeps what it is told, and where it would send it."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str, bool, bool]] = []
        self.addresses: list[str] = []

    def connect(self, address: str) -> None:
        self.addresses.append(address)

    def write(self, urn: str, text: str, *, passing: bool = False, warning: bool = False) -> None:
        self.lines.append((urn, text, passing, warning))


@dataclass
class Provider:
    """The servicer with a scripted API, on a clock that only moves in pauses."""

    cloud: Cloud = field(default_factory=Cloud)
    time: FakeTime = field(default_factory=FakeTime)
    log: Log = field(default_factory=Log)
    connected: list[Configuration] = field(default_factory=list)
    environ: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        self.script = Script(self.time, self.cloud)
        self.servicer = Servicer(
            self.log, self._connect, lambda _: self.time.timing(), environ=self.environ
        )

    def _connect(self, configured: Configuration, _: Timing) -> TpuClient:
        self.connected.append(configured)
        return TpuClient(self.script)

    def call(self, method: str, request: object) -> Any:
        return getattr(self.servicer, method)(request, Context())
