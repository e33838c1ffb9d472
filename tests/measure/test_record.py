"""Recording: what becomes of snapshots when the server, its slice or its key changes meanwhile.

The clock is a passed one, and the server answers what it is told to.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import cached_property
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.cli.samples import status
from tests.loopback import serving
from tests.measure.snapshots import BEGIN
from tests.reports import lines_to
from tpuflex.errors import AccessError, ConflictError, InterruptedByUser, UsageError
from tpuflex.google.timing import Timing
from tpuflex.measure import server as server_module
from tpuflex.measure.archive import Snapshot, read_archive, writing
from tpuflex.measure.record import Recorded, record
from tpuflex.operate import endpoint_connection
from tpuflex.project import open_project
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack, read_stack

pytest.importorskip("pyarrow")

_METRICS = """vllm:num_requests_running{{engine="0"}} 2.0
vllm:generation_tokens_total{{engine="0"}} {tokens}
process_start_time_seconds {started}
"""


@dataclass
class World:
    """A server, its slice and its key, and a clock that goes on while somebody waits.

    Attributes:
        events: minute -> what happens then.
    """

    events: dict[int, Callable[[World], None]] = field(default_factory=dict)
    seconds: float = 0.0
    node: str = "nodes/one"
    code: int = 200
    key: str = "first"
    known_key: str = "first"
    started: float = BEGIN.timestamp()
    keys_read: int = 0

    def pause(self, seconds: float) -> bool:
        self.seconds += seconds
        for minute in sorted(self.events):
            if minute * 60 <= self.seconds:
                self.events.pop(minute)(self)
        return False

    def timing(self) -> Timing:
        return Timing(lambda: self.seconds, lambda: self.seconds, self.pause, random.random)

    def now(self) -> datetime:
        return BEGIN + timedelta(seconds=self.seconds)

    def read_key(self) -> str:
        self.keys_read += 1
        return self.known_key

    def handler(self) -> type[BaseHTTPRequestHandler]:
        world = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code = world.code
                if self.headers.get("Authorization") != f"Bearer {world.key}":
                    code = 401
                tokens = 100.0 * world.seconds
                body = {
                    "/version": '{"version": "0.32.0"}',
                    "/v1/models": '{"data": [{"id": "m", "max_model_len": 512}]}',
                    "/metrics": _METRICS.format(tokens=tokens, started=world.started),
                }[self.path].encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@dataclass(frozen=True)
class _Connection(Connection):
    """A connection with a clock of its own."""

    clock: Timing | None = None

    @cached_property
    def timing(self) -> Timing:
        assert self.clock is not None
        return self.clock


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def cloud(project: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """The dev stack, whose slice and server are those of ``world``."""
    dev = read_stack(open_project(project, {}), "dev")
    with serving(world.handler()) as url:
        port = int(url.rpartition(":")[2])
        settings = dev.settings.model_copy(
            update={
                "serving": dev.settings.serving.model_copy(update={"port": port}),
                "model": dev.settings.model.model_copy(update={"name": "m"}),
            }
        )
        monkeypatch.setattr(
            endpoint_connection,
            "slice_status",
            lambda *_, **__: replace(
                status(address="127.0.0.1" if world.node else ""),
                node=world.node,
                zone="us-east5-a",
            ),
        )
        monkeypatch.setattr(server_module, "api_key", lambda _cloud: world.read_key())
        yield _Connection(
            Stack(dev.project, "dev", dev.file, settings),
            {},
            clock=world.timing(),
        )


def interrupted(_world: World) -> None:
    """Ctrl-C."""
    raise KeyboardInterrupt


def changed(**values: object) -> Callable[[World], None]:
    """An event that changes the world."""

    def event(world: World) -> None:
        for name, value in values.items():
            setattr(world, name, value)

    return event


def recorded(
    cloud: Connection, directory: Path, world: World
) -> tuple[Recorded, list[Snapshot], list[str]]:
    """What was recorded, as it is read again, and the lines that were reported."""
    lines = list[str]()
    found = record(cloud, directory, lines_to(lines), now=world.now)
    return found, list(read_archive(directory, "dev")), lines


def test_ctrl_c_ends_a_recording_with_all_that_was_taken(
    tmp_path: Path, cloud: Connection, world: World
) -> None:
    """A snapshot a minute, each with whose it is; the key is read once."""
    world.events = {3: interrupted}
    found, read, lines = recorded(cloud, tmp_path, world)
    assert found.to_json() == {
        "stack": "dev",
        "directory": str(tmp_path),
        "snapshots": 3,
        "unanswered": 0,
    }
    assert [each.at for each in read] == [BEGIN + timedelta(minutes=n) for n in range(3)]
    origin = read[0].origin
    assert (origin.slice, origin.zone, origin.vllm) == ("nodes/one", "us-east5-a", "0.32.0")
    assert (origin.model, origin.max_model_len, origin.cloud) == ("m", 512, "embedded")
    assert [each.metrics.generation_tokens for each in read if each.metrics] == [0, 6000, 12_000]
    assert world.keys_read == 1
    assert lines == [f"Recording stack dev in {tmp_path}, every 60 s, until Ctrl-C."]


def test_one_that_is_stopped_before_its_first_snapshot(tmp_path: Path, cloud: Connection) -> None:
    """It says that there is nothing, and no recording that ended well."""

    def stopped() -> datetime:
        raise KeyboardInterrupt

    with pytest.raises(InterruptedByUser, match="nothing was recorded in"):
        record(cloud, tmp_path, now=stopped)


@pytest.mark.parametrize("in_the_way", ["a file", "another recording"])
def test_one_that_cannot_begin_announces_nothing(
    tmp_path: Path, cloud: Connection, in_the_way: str
) -> None:
    """It is refused before it says that it records."""
    lines = list[str]()
    archive = tmp_path / "archive"
    with ExitStack() as opened:
        if in_the_way == "a file":
            archive.write_text("mine", "utf-8")
        else:
            opened.enter_context(writing(archive, "dev"))
        with pytest.raises((UsageError, ConflictError)):
            record(cloud, archive, lines_to(lines))

    assert lines == []


def test_a_server_that_does_not_answer_is_a_row_that_says_so(
    tmp_path: Path, cloud: Connection, world: World
) -> None:
    """And so is a slice that is gone; the recording goes on with the one that comes next."""
    world.events = {
        1: changed(code=503),
        3: changed(node=""),
        4: changed(node="nodes/two", code=200, started=BEGIN.timestamp() + 200),
        5: interrupted,
    }
    found, read, lines = recorded(cloud, tmp_path, world)
    assert (found.snapshots, found.unanswered) == (2, 3)
    assert [each.origin.slice for each in read] == [
        *("nodes/one", "nodes/one", "nodes/one", "", "nodes/two")
    ]
    assert "answered 503" in read[1].gap
    assert "has no endpoint" in read[3].gap
    assert lines[1].startswith("No snapshot at 10:01 UTC: /v1/models of http://127.0.0.1:")
    assert lines[2:] == ["The endpoint answers again, after 3 min."]


def test_a_key_is_read_again_when_it_is_refused(
    tmp_path: Path, cloud: Connection, world: World
) -> None:
    """Then it may have been changed: no snapshot is lost."""
    world.events = {1: changed(key="second", known_key="second"), 3: interrupted}
    found, _, _ = recorded(cloud, tmp_path, world)
    assert (found.snapshots, found.unanswered, world.keys_read) == (3, 0, 2)


def test_a_key_that_is_refused_at_the_first_look_is_an_error(
    tmp_path: Path, cloud: Connection, world: World
) -> None:
    """Somebody is there to mend it."""
    world.key = "another"
    with pytest.raises(AccessError, match="refused the API key"):
        record(cloud, tmp_path)


def test_looks_that_are_missed_are_left_out(
    tmp_path: Path, cloud: Connection, world: World
) -> None:
    """As while the machine slept: the next one comes at its own time."""

    def sleep(world: World) -> None:
        world.seconds += 150

    world.events = {1: sleep, 5: interrupted}
    _, read, _ = recorded(cloud, tmp_path, world)
    assert [(each.at - BEGIN).total_seconds() / 60 for each in read] == [0, 3.5, 4]
