"""A benchmark as a whole: what is asked, driven and kept, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.measure.drives import ScriptedGenerator
from tests.reports import lines_to
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import (
    ApiError,
    ImplausibleError,
    InterruptedByUser,
    TpuflexError,
    UsageError,
)
from tpuflex.measure.bench import (
    Benchmark,
    Enough,
    Order,
    evidence,
    expected_seconds,
    measure,
    never,
)
from tpuflex.measure.grid import Grid
from tpuflex.measure.judgement import Chips
from tpuflex.measure.load import Drive, Generator
from tpuflex.measure.run import Load, Server
from tpuflex.measure.run_file import read_run
from tpuflex.measure.subject import Subject
from tpuflex.stack.progress import Consent, Question, agree, silent

CATALOG = builtin()
SERVER = Server(
    model="google/gemma-4-E2B-it",
    accelerator="v6e-1",
    kv_tokens=4000,
    block_size=16,
    max_model_len=1024,
    usd_per_hour=Decimal("1.35"),
)
SUBJECT = Subject(
    SERVER,
    Chips(CATALOG.model("google/gemma-4-E2B-it"), CATALOG.accelerator("v6e-1"), Decimal("1.35")),
    "dev",
    "a" * 64,
)
#: Nine points, of which three are more than 250 blocks hold.
GRID = Grid(concurrency=(1, 4, 32), context=(16, 128, 1000), output=8)


def run(
    path: Path,
    generator: ScriptedGenerator,
    *,
    grid: Grid | None = GRID,
    consent: Consent = agree,
    subject: Subject = SUBJECT,
    said: list[str] | None = None,
    enough: Enough = never,
) -> Benchmark:
    """Measure with ``generator``."""

    @contextmanager
    def running() -> Iterator[Generator]:
        yield generator

    def start() -> AbstractContextManager[Generator]:
        return running()

    report = silent if said is None else lines_to(said)
    return measure(subject, start, Order(path, grid), report, consent, enough)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a run is kept."""
    return tmp_path / "bench" / "run.jsonl"


def test_every_point_is_measured_or_not_feasible(path: Path) -> None:
    """What the server cannot hold is not tried; a warm-up comes first, and is kept nowhere."""
    generator = ScriptedGenerator()

    found = run(path, generator)

    warm_up, *driven = generator.driven
    assert (warm_up.context, warm_up.output, warm_up.requests) == (16, 8, 8)
    infeasible = {(4, 1000), (32, 128), (32, 1000)}
    assert {(load.concurrency, load.context) for load in driven} == {
        (users, tokens) for users in (1, 4, 32) for tokens in (16, 128, 1000)
    } - infeasible
    assert (found.count("result"), found.count("not_feasible")) == (6, 3)
    assert [point.load.key for point in found.points] == sorted(
        load.key for load in found.run.loads
    )
    found.require_results()
    assert all(point.usd_per_million for point in found.points if point.measured)
    assert read_run(path).run == found.run


@pytest.mark.parametrize("stopped_at", range(1, 7))
def test_a_stopped_run_goes_on_with_what_is_missing(path: Path, stopped_at: int) -> None:
    """Whichever point Ctrl-C meets: the file keeps those before, and the same points are there in
    the end, none twice. Prompts that may be in the server's cache are not asked for again."""
    first = ScriptedGenerator({stopped_at: KeyboardInterrupt()})
    with pytest.raises(InterruptedByUser) as caught:
        run(path, first)
    if stopped_at > 1:
        assert f"Stopped: {stopped_at + 2} of 9 points are in {path}." in str(caught.value)
    assert f"tpuflex bench run --resume {path}" in str(caught.value.hint)

    second = ScriptedGenerator()
    found = run(path, second, grid=None)

    assert len(found.points) == 9
    assert {point.load.key for point in found.points} == {load.key for load in found.run.loads}
    done = first.driven[1:-1]
    assert [load.key for load in second.driven[1:]] == [
        load.key
        for load in found.run.loads
        if load.key not in {each.key for each in done}
        and load.key in {point.load.key for point in found.points if point.measured}
    ]
    seeds = {load.seed for load in first.driven}
    assert seeds.isdisjoint(load.seed for load in second.driven)


def test_a_complete_run_has_nothing_to_go_on_with(path: Path) -> None:
    """It is shown as it is; nothing is asked, and no load generator is started."""
    whole = run(path, ScriptedGenerator())
    idle = ScriptedGenerator()

    assert run(path, idle, grid=None, consent=_never) == whole
    assert idle.driven == []


def test_too_little_to_share_is_refused(path: Path) -> None:
    """Less than a block is in no prefix cache: nothing is asked, and no file is made."""
    with pytest.raises(
        UsageError, match="15 tokens are less than a block of the KV cache"
    ) as caught:
        run(path, ScriptedGenerator(), grid=Grid(shared=15), consent=_never)

    assert caught.value.option == "--shared"
    assert not path.exists()


def test_a_drive_is_evidence_of_what_was_there_before() -> None:
    """Requests that run or wait in the first look at the server are of others."""
    drive = ScriptedGenerator().drive(Load(concurrency=1, context=8, output=8, requests=2))
    waiting = "vllm:num_requests_running 2\nvllm:num_requests_waiting 1\n"

    assert evidence(drive).open_before == 0
    assert evidence(replace(drive, before=waiting + drive.before)).open_before == 3


def test_a_point_has_the_time_of_its_beginning(path: Path) -> None:
    """Not that of its end, which follows from its seconds."""
    asked: list[datetime] = []

    class Noting(ScriptedGenerator):
        def drive(self, load: Load) -> Drive:
            asked.append(datetime.now(UTC))
            return super().drive(load)

    found = run(path, Noting(), grid=Grid(points=((1, 16),)))

    assert found.points[0].at is not None
    assert asked[0] <= found.points[0].at <= asked[1]


def _never(question: Question) -> bool:
    raise AssertionError(question.text)


def test_without_consent_nothing_begins(path: Path) -> None:
    """Before the question stands what it is about: points, requests, price."""
    said: list[str] = []
    asked: list[str] = []

    def refuse(question: Question) -> bool:
        asked.append(question.text)
        return False

    generator = ScriptedGenerator()
    with pytest.raises(InterruptedByUser):
        run(path, generator, consent=refuse, said=said)

    assert generator.driven == []
    assert not path.exists()
    assert "6 points of 9: the others are more than its KV cache or context holds" in said[0]
    assert "up to 32 at a time" in said[0]
    assert "at the very least" in said[0]
    assert "$1.35 per hour" in said[0]
    assert asked == ["Put this load on google/gemma-4-E2B-it?"]


def test_a_file_that_is_there_is_refused_before_the_question(path: Path) -> None:
    """It may be somebody's points."""
    path.parent.mkdir()
    path.write_text("mine")

    with pytest.raises(TpuflexError, match="is there already"):
        run(path, ScriptedGenerator(), consent=_never)

    assert path.read_text() == "mine"


def test_points_of_another_server_are_not_added(path: Path) -> None:
    """What differs is said, and the file stays as it is."""
    with pytest.raises(InterruptedByUser):
        run(path, ScriptedGenerator({2: KeyboardInterrupt()}))
    before = path.read_bytes()
    other = Subject(SERVER.model_copy(update={"kv_tokens": 8192}), SUBJECT.chips, "dev", "b" * 64)

    with pytest.raises(TpuflexError) as caught:
        run(path, ScriptedGenerator(), grid=None, subject=other)

    assert "kv_tokens: 4000 then, 8192 now" in str(caught.value)
    assert "settings of the stack: aaaaaaaaaaaa then, bbbbbbbbbbbb now" in str(caught.value)
    assert path.read_bytes() == before


def test_a_server_that_is_gone_ends_the_run(path: Path) -> None:
    """It is no point's fault: what was measured stays, and how to go on is said."""
    said: list[str] = []
    error = "Traceback …\nClientConnectorError: Cannot connect to host"

    with pytest.raises(ApiError, match="answered none of 32 requests: 32 not connected") as caught:
        run(path, ScriptedGenerator({3: error}), said=said)

    assert caught.value.exit_code == 7
    assert said[-1] == f"5 of 9 points are in {path}."
    assert "To go on: tpuflex bench run --stack big" in caught.value.hint.for_stack("big", {})
    assert len(read_run(path).points) == 5


def test_a_refused_key_ends_it_at_once(path: Path) -> None:
    """The warm-up finds that no request is answered, before a point is measured."""
    with pytest.raises(ApiError, match="answered none of 8 requests: 8 HTTP 401"):
        run(path, ScriptedGenerator({0: "Unauthorized"}))


def test_a_point_that_is_no_result_decides_the_exit_code(path: Path) -> None:
    """All others are measured nevertheless."""
    said: list[str] = []
    found = run(path, ScriptedGenerator({2: "Too Many Requests"}), said=said)

    assert (found.count("result"), found.count("not_a_result")) == (5, 1)
    assert any("requests were not answered with their 8 tokens" in line for line in said)
    with pytest.raises(ImplausibleError, match="1 of 6 points are not results"):
        found.require_results()
    document = found.to_json()
    assert document["file"] == str(path)
    assert "'requests': {" not in str(document["points"])


@pytest.mark.parametrize(
    ("load", "seconds"),
    [
        ((8, 128, 64), 10),
        ((16, 128, 128), 20),
        ((4, 128, 64), 20),
        ((8, 1024, 64), 10 * (1024 + 64) / (128 + 64)),
        ((64, 8192, 512), 120),
    ],
)
def test_how_long_a_point_takes_is_told_by_its_neighbour(
    load: tuple[int, int, int], seconds: float
) -> None:
    """A request takes as long as at the nearest point, and longer with more users or tokens."""

    def of(concurrency: int, context: int, requests: int) -> Load:
        return Load(concurrency=concurrency, context=context, output=64, requests=requests)

    taken = [(of(8, 128, 64), 10.0), (of(64, 8192, 512), 120.0)]

    assert expected_seconds(of(*load), taken) == pytest.approx(seconds)
