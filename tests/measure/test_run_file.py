"""The file of a run: what a kill leaves of it, and who may go on with it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tpuflex.errors import TpuflexError
from tpuflex.measure.grid import Grid
from tpuflex.measure.run import Measured, Point, Quantiles, Run, Server
from tpuflex.measure.run_file import create, differences, read_run, resume

LOADS = Grid(concurrency=(1, 2, 4), context=(8, 16, 32)).loads(1)
RUN = Run(
    id="r",
    name="a run",
    started=datetime(2026, 11, 29, tzinfo=UTC),
    stack="dev",
    stack_hash="a" * 64,
    server=Server(model="m", kv_tokens=1024, block_size=16),
    command=("vllm", "bench", "serve"),
    loads=LOADS,
)
POINTS = tuple(
    Point(
        load=load,
        verdict="result",
        measured=Measured(
            seconds=1.5,
            completed=32,
            requests_per_second=21.3,
            output_per_second=1365.2,
            prompt_per_second=2730.1,
            ttft=Quantiles.of([0.1, 0.2]),
        ),
    )
    for load in LOADS
)


def write(path: Path, points: tuple[Point, ...] = POINTS) -> bytes:
    """The bytes of a file with ``points``."""
    with create(path, RUN) as file:
        for point in points:
            file.append(point)
    return path.read_bytes()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(share=st.floats(0, 1))
def test_a_file_cut_at_any_byte_goes_on_to_the_same_points(tmp_path: Path, share: float) -> None:
    """None is lost but the last one, none is there twice, and they are in their order."""
    path = tmp_path / "run.jsonl"
    path.unlink(missing_ok=True)
    whole = write(path)
    header = whole.index(b"\n") + 1
    path.write_bytes(whole[: header + round(share * (len(whole) - header))])

    with resume(path) as file:
        kept = len(file.points)
        for load in file.missing:
            file.append(next(point for point in POINTS if point.load == load))

    assert kept >= int(share * len(POINTS)) - 1
    assert path.read_bytes() == whole
    assert read_run(path).points == POINTS


def test_a_file_without_its_first_line_has_no_run(tmp_path: Path) -> None:
    """It says that nothing is lost with it."""
    path = tmp_path / "run.jsonl"
    whole = write(path)
    path.write_bytes(whole[:40])

    with pytest.raises(TpuflexError, match="first line") as caught, resume(path):
        pass

    assert "No point was measured" in str(caught.value.hint)


def test_no_file_is_overwritten(tmp_path: Path) -> None:
    """The error names the command that goes on with it."""
    path = tmp_path / "run.jsonl"
    whole = write(path)

    with pytest.raises(TpuflexError, match="is there already") as caught, create(path, RUN):
        pass

    assert f"--resume {path}" in str(caught.value.hint)
    assert path.read_bytes() == whole


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    """The second one is refused, and changes nothing; once the first is gone, it may."""
    path = tmp_path / "run.jsonl"
    with create(path, RUN) as file:
        with pytest.raises(TpuflexError, match="Another process"), resume(path):
            pass
        file.append(POINTS[0])

    with resume(path) as again:
        assert again.missing == LOADS[1:]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{}\n", "line 3 cannot be used: it is no point of a benchmark: load"),
        (b"no JSON\n", "line 3 cannot be used: it is no point"),
        (POINTS[0].model_dump_json().encode() + b"\n", "line 3 cannot be used: it has a point"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, line: bytes, says: str) -> None:
    """With file and line, and what is wrong."""
    path = tmp_path / "run.jsonl"
    whole = write(path, POINTS[:1])
    path.write_bytes(whole + line)

    with pytest.raises(TpuflexError) as caught:
        read_run(path)

    assert says in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """No traceback."""
    with pytest.raises(TpuflexError, match="No such file"):
        read_run(tmp_path / "none.jsonl")


def test_points_of_another_server_do_not_belong_to_a_run() -> None:
    """What differs is said with both values; the time and the name of a run do not matter."""
    later = RUN.model_copy(update={"id": "s", "started": datetime(2026, 11, 30, tzinfo=UTC)})
    assert differences(RUN, later) == ()

    server = RUN.server.model_copy(update={"kv_tokens": 2048, "vllm": "0.33.0"})
    changed = RUN.model_copy(update={"server": server, "stack_hash": "b" * 64})
    assert differences(RUN, changed) == (
        "settings of the stack: aaaaaaaaaaaa then, bbbbbbbbbbbb now",
        "vllm: none then, 0.33.0 now",
        "kv_tokens: 1024 then, 2048 now",
    )
