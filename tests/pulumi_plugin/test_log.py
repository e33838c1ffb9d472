"""Progress lines: they reach the engine's log as they are meant, and losing one does no harm."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import engine_pb2, engine_pb2_grpc

URN = "urn:pulumi:dev::shop::tpuflex:tpu:QueuedResource::slice"


class Engine(engine_pb2_grpc.EngineServicer):
    """The engine's log service, and what came in with how much time to answer."""

    def __init__(self) -> None:
        self.lines: list[engine_pb2.LogRequest] = []
        self.patience: list[float] = []
        self.refuse = False
        server = grpc.server(ThreadPoolExecutor(2))
        engine_pb2_grpc.add_EngineServicer_to_server(self, server)
        self.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        self.stop = server.stop

    def Log(self, request: engine_pb2.LogRequest, context: grpc.ServicerContext) -> Empty:  # noqa: N802
        self.lines.append(request)
        self.patience.append(context.time_remaining() or 0)
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
def test_a_line_arrives_as_it_is_meant(engine: Engine, passing: bool, warning: bool) -> None:
    """At its resource, as information or a warning, for good or until the next; without tokens,
    and with a few seconds of patience."""
    log = EngineLog(engine.address)

    log.write(URN, "Bearer abc.def is waiting", passing=passing, warning=warning)

    (line,) = engine.lines
    severity = engine_pb2.WARNING if warning else engine_pb2.INFO
    assert line == engine_pb2.LogRequest(
        severity=severity, message="[removed] is waiting", urn=URN, ephemeral=passing
    )
    assert 0 < engine.patience[0] < 6


def test_plain_lines_are_information_for_good(engine: Engine) -> None:
    """What is said without more stays on the console."""
    EngineLog(engine.address).write(URN, "x")

    assert [(line.severity, line.ephemeral) for line in engine.lines] == [(engine_pb2.INFO, False)]


def test_lines_go_to_the_engine_that_made_contact_last(engine: Engine) -> None:
    """Before any did there is nobody to tell; an empty address changes nothing."""
    other = Engine()
    log = EngineLog()

    log.write(URN, "nobody hears it")
    for address in (engine.address, "", engine.address):
        log.connect(address)
        log.write(URN, "first")
    log.connect(other.address)
    log.write(URN, "second")

    assert [line.message for line in engine.lines] == ["first"] * 3
    assert [line.message for line in other.lines] == ["second"]
    other.stop(None).wait()


def test_a_line_that_is_lost_fails_nothing(engine: Engine) -> None:
    """The engine may refuse it, or be gone."""
    engine.refuse = True

    EngineLog(engine.address).write(URN, "refused")
    EngineLog("127.0.0.1:1").write(URN, "nobody there")

    assert [line.message for line in engine.lines] == ["refused"]
