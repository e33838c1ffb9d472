"""Benchmarks and archives of somebody else: read within bounds, and nothing is written over."""

from __future__ import annotations

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.measure.benchmarks import load, point, run
from tests.measure.snapshots import BEGIN
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import AccessError, SettingsError, TpuflexError
from tpuflex.files.trusted import creation_lock, lock_of, write_shared
from tpuflex.measure.archive import read_archive
from tpuflex.measure.benchmark_files import Benchmark, read_benchmark
from tpuflex.measure.judged_table import import_table
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.report_files import export, write_report
from tpuflex.measure.run import Run, Server
from tpuflex.measure.run_file import create, differences, resume
from tpuflex.measure.vllm_result import VllmResult

LOADS = [load(1, 128)]
RUN = run(*LOADS)
MERGES = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12)
)


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A file of a run."""
    path = tmp_path / "run.jsonl"
    with create(path, RUN) as file:
        file.append(point(LOADS[0]))
    return path


# -- written -----------------------------------------------------------------------------------


def test_nothing_is_written_through_a_link(tmp_path: Path, recorded: Path) -> None:
    """A report goes to a file of its own name, and not where a link leads."""
    other = tmp_path / "other"
    other.write_text("kept")
    (tmp_path / "run-report.md").symlink_to(other)
    with pytest.raises(TpuflexError, match="cannot be written: there is a link"):
        write_report([recorded])
    assert other.read_text() == "kept"
    assert not list(tmp_path.glob(".*"))


def test_no_benchmark_that_was_read_is_overwritten(tmp_path: Path, recorded: Path) -> None:
    """The output of one tool can be named as another's input was, and nothing is written then."""
    source = recorded.rename(tmp_path / "run.html")
    before = source.read_bytes()
    with pytest.raises(TpuflexError, match="is not overwritten"):
        write_report([source], tmp_path / "run")
    assert source.read_bytes() == before
    assert not (tmp_path / "run.md").exists()

    reports = tmp_path / "reports"
    exported = export(Benchmark(RUN, (point(LOADS[0]),)), reports)
    with pytest.raises(TpuflexError, match="is not overwritten"):
        export(read_benchmark(reports), reports, (reports,))
    assert exported.files


def test_a_shared_file_has_the_mode_of_the_umask(tmp_path: Path) -> None:
    """People share a report, and what was there before is replaced."""
    before = os.umask(0o027)
    try:
        for text in ("one", "two"):
            write_shared(tmp_path / "report.md", text)
    finally:
        os.umask(before)
    assert (tmp_path / "report.md").read_text() == "two"
    assert (tmp_path / "report.md").stat().st_mode & 0o777 == 0o640


def test_a_lock_changes_no_file(tmp_path: Path) -> None:
    """A link in its place is refused, and a file that is there keeps what is in it."""
    place, other = tmp_path / "place", tmp_path / "other"
    other.write_text("kept")
    lock_of(place).symlink_to(other)
    with pytest.raises(AccessError, match="Refused to lock"), creation_lock(place):
        pass
    lock_of(place).unlink()
    lock_of(place).write_text("kept, too")
    with creation_lock(place):
        pass
    assert (other.read_text(), lock_of(place).read_text()) == ("kept", "kept, too")


# -- read --------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
@pytest.mark.parametrize("device", [False, True])
def test_what_never_ends_is_not_read(tmp_path: Path, device: bool) -> None:
    """A pipe that nobody writes to, and a device that has no end."""
    path = Path("/dev/zero")
    if not device:
        path = tmp_path / "pipe.csv"
        os.mkfifo(path)
    for read in (read_benchmark, lambda path: resume(path).__enter__()):
        with pytest.raises(TpuflexError, match="not a regular file"):
            read(path)
    with pytest.raises(SettingsError, match="not a regular file"):
        import_table(path, builtin(), datetime(2026, 11, 29, tzinfo=UTC).date())


@pytest.mark.timeout(60)
def test_a_bomb_of_yaml_is_refused_at_once(tmp_path: Path) -> None:
    """Keys that are merged again and again are counted before anything is built."""
    (tmp_path / "bomb.yaml").write_text(MERGES)
    with pytest.raises(TpuflexError, match="stands for more than"):
        read_benchmark(tmp_path / "bomb.yaml")


def test_a_run_begins_no_line_of_its_own() -> None:
    """Its texts are one line each, in what is shown of it and in what differs."""
    forged = Run(id="r", name="x\nWritten: y", server=Server(model="\x1b[2Km\n" + "m" * 5000))
    assert forged.name == r"x\x0aWritten: y"
    (differs,) = differences(forged, Run(id="r", name="x", server=Server(model="m")))
    assert "\n" not in differs
    assert len(differs) < 500


@pytest.mark.parametrize(
    "changes",
    [
        {"usd_per_hour": "1e999999"},
        {"usd_per_hour": "-1"},
        {"usd_per_hour": "0." + "1" * 1000},
        {"kv_tokens": 10**400},
        {"max_num_seqs": -1},
    ],
)
def test_what_cannot_be_computed_with_is_refused(changes: dict[str, Any]) -> None:
    """Numbers that no server has end in an error, and in no overflow later."""
    with pytest.raises(ValidationError):
        Server.model_validate({"model": "m"} | changes)


@pytest.mark.parametrize("when", [math.nan, math.inf, -1.0])
def test_a_time_is_a_number(when: float) -> None:
    """JSON of Python has NaN and Infinity, too."""
    result = {"duration": 1, "completed": 1, "total_input_tokens": 1, "total_output_tokens": 1}
    rates = {"request_throughput": 1, "output_throughput": 1}
    with pytest.raises(ValidationError, match="start_times"):
        VllmResult.model_validate_json(json.dumps(result | rates | {"start_times": [when]}))


@pytest.mark.parametrize("edges", [("+Inf",), ("-Inf", "+Inf"), ("-1", "+Inf"), ("1e300", "+Inf")])
def test_edges_that_nothing_observes_are_no_histogram(edges: tuple[str, ...]) -> None:
    """So that the document of `metrics --json` is JSON."""
    name = "vllm:time_to_first_token_seconds"
    lines = [f'{name}_bucket{{le="{edge}"}} 1' for edge in edges]
    text = "\n".join((f"# TYPE {name} histogram", *lines, f"{name}_count 1", f"{name}_sum 1", ""))
    assert EngineMetrics.parse(text, BEGIN).ttft is None


def rows(count: int = 1, **changes: object) -> list[dict[str, object]]:
    """Rows of an archive."""
    texts = ("stack", "cloud", "slice", "zone", "accelerator", "model", "vllm", "settings_hash")
    row = {"at": BEGIN, "gap": "", "interval": 60} | dict.fromkeys(texts, "x")
    return [row | changes] * count


INF = {"le": math.inf, "count": 1.0}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"count": 30_000, "gap": "x"}, "more than a day has"),
        ({"at": datetime(1, 1, 1, tzinfo=UTC)}, "year 1"),
        ({"at": 2**62}, ""),
        ({"ttft": {"buckets": [], "sum": 1.0}}, "a histogram"),
        ({"ttft": {"buckets": [INF], "sum": 1.0}}, "a histogram"),
        ({"ttft": {"buckets": [{"le": None, "count": 1.0}, INF], "sum": 1.0}}, "a histogram"),
        ({"running": math.nan}, "nothing can have counted"),
        ({"success": [("stop", -1.0)]}, "nothing can have counted"),
        ({"interval": -60}, "nothing can have counted"),
    ],
)
def test_an_archive_that_nobody_recorded_is_named(
    tmp_path: Path, changes: dict[str, Any], says: str
) -> None:
    """Its file is named, whatever is wrong with it, and is read within bounds."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from tpuflex.measure.archive import _schema

    file = tmp_path / "date=2026-11-29" / "x.parquet"
    file.parent.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows(**changes), schema=_schema()), file)
    with pytest.raises(TpuflexError, match=rf"x\.parquet cannot be read.*: .*{says}"):
        list(read_archive(tmp_path, "x"))


def test_a_stack_is_no_pattern(tmp_path: Path) -> None:
    """A name in brackets is that name."""
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    from tpuflex.measure.archive import _schema

    file = tmp_path / "date=2026-11-29" / "[x].parquet"
    file.parent.mkdir()
    parquet.write_table(pyarrow.Table.from_pylist(rows(gap="x"), schema=_schema()), file)
    assert len(list(read_archive(tmp_path, "[x]"))) == 1
