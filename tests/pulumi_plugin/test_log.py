"""Progress lines in the engine's log: severity, address, credentials, lost lines."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import engine_pb2, engine_pb2_grpc

TOKEN = "ya29.a0Canary_token-123"
URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"


class Engine(engine_pb2_grpc.EngineServicer):
    """The engine's log service; keeps the lines and how much time each left to answer."""

    def __init__(self) -> None:
        self.lines: list[engine_pb2.LogRequest] = []
        self.timeouts: list[float] = []
        self.refuse = False
        server = grpc.server(ThreadPoolExecutor(2))
        engine_pb2_grpc.add_EngineServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.stop = server.stop

    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> Empty:  # noqa: N802
        self.lines.append(request)
        self.timeouts.append(context.time_remaining() or 0)
        if self.refuse:
            context.abort(grpc.StatusCode.UNAVAILABLE, "on its way out")
        return Empty()


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = Engine()
    yield made
    made.stop(None).wait()


@pytest.mark.parametrize("passing", [True, False])
@pytest.mark.parametrize("warning", [True, False])
def test_a_line_keeps_its_severity_and_kind(engine: Engine, passing: bool, warning: bool) -> None:
    """Information or warning, lasting or passing; without credentials, and with a timeout."""
    log = EngineLog(engine.address)

    log.write(URN, "Bearer abc.defg.hij is waiting", passing=passing, warning=warning)

    (line,) = engine.lines
    severity = engine_pb2.WARNING if warning else engine_pb2.INFO
    assert line == engine_pb2.LogRequest(
        severity=severity, message="[removed] is waiting", urn=URN, ephemeral=passing
    )
    assert 0 < engine.timeouts[0] < 6


def test_lines_are_lasting_information_by_default(engine: Engine) -> None:
    """Neither a warning nor replaced by the next line."""
    EngineLog(engine.address).write(URN, "x")

    assert [(line.severity, line.ephemeral) for line in engine.lines] == [(engine_pb2.INFO, False)]


def test_lines_go_to_the_engine_that_made_contact_last(engine: Engine) -> None:
    """Lines before the first contact are dropped; an empty address changes nothing."""
    other = Engine()
    log = EngineLog()

    log.write(URN, "dropped")
    for address in (engine.address, "", engine.address):
        log.connect(address)
        log.write(URN, "first")
    log.connect(other.address)
    log.write(URN, "second")

    assert [line.message for line in engine.lines] == ["first"] * 3
    assert [line.message for line in other.lines] == ["second"]
    other.stop(None).wait()


def test_a_lost_line_raises_nothing(engine: Engine) -> None:
    """The engine may refuse it, or be gone."""
    engine.refuse = True

    EngineLog(engine.address).write(URN, "refused")
    EngineLog("127.0.0.1:1").write(URN, "no engine")

    assert [line.message for line in engine.lines] == ["refused"]
