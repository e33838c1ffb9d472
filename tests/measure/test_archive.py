"""The archive of metrics: what is written is read, whatever ends the writing."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.measure.snapshots import BEGIN, ORIGIN, snapshot, unanswered
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.measure.archive import archived_stack, read_archive, writing

pyarrow = pytest.importorskip("pyarrow")

ROOT = Path(__file__).parents[2]
#: Writes a row at a time, and says so each time, until it is killed.
_ENDLESS = """
from pathlib import Path
from tests.measure.snapshots import snapshot
from tpuflex.measure.archive import writing
with writing(Path({directory!r}), "prod") as writer:
    for minute in range(100_000):
        writer.add(snapshot(minute))
        writer.flush()
        print(minute, flush=True)
"""


def test_what_was_written_is_read_as_it_was(tmp_path: Path) -> None:
    """Values, histograms, what a server does not say, and a look without an answer."""
    snapshots = [
        snapshot(0, running=3.0, prompt_tokens=2.0**62, success={"stop": 4.0, "length": 1.0}),
        snapshot(1, kv_use=None, ttft=None, kv_cache=None, success={}),
        unanswered(2, "no connection"),
    ]
    with writing(tmp_path, "prod") as writer:
        for each in snapshots:
            writer.add(each)
    read = list(read_archive(tmp_path, "prod"))
    assert read[0] == snapshots[0]
    assert read[1].metrics is not None
    assert (read[1].metrics.kv_use, read[1].metrics.ttft) == (None, None)
    assert read[2] == snapshots[2]


def test_a_day_is_a_file_and_a_stack_is_one(tmp_path: Path) -> None:
    """Days are those of UTC, and two stacks can share a directory."""
    for stack, minutes in (("prod", (0, 839, 840)), ("dev", (0,))):
        with writing(tmp_path, stack) as writer:
            for minute in minutes:
                writer.add(snapshot(minute))
    files = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.glob("*/*"))
    assert files == [
        "date=2026-11-29/dev.parquet",
        "date=2026-11-29/prod.parquet",
        "date=2026-11-30/prod.parquet",
    ]
    since = BEGIN + timedelta(minutes=839)
    assert [each.at for each in read_archive(tmp_path, "prod", since)] == [
        since,
        since + timedelta(minutes=1),
    ]


def test_other_tools_read_an_archive_as_one_table(tmp_path: Path) -> None:
    """Directories are Hive's partitions, and a lock or an unfinished file is no part of it."""
    import pyarrow.dataset

    with writing(tmp_path, "prod") as writer:
        writer.add(snapshot(0))
        writer.add(snapshot(840))
        writer.flush()
        (tmp_path / "date=2026-11-30" / ".prod.parquet.x1").write_bytes(b"PAR1")
        table = pyarrow.dataset.dataset(tmp_path, partitioning="hive").to_table()
    assert table.num_rows == 2
    assert table.column("date").to_pylist() == ["2026-11-29", "2026-11-30"]
    assert table.column("ttft").to_pylist()[0]["buckets"][0] == {"le": 0.1, "count": 0.0}


def test_a_recording_goes_on_with_the_file_of_the_day(tmp_path: Path) -> None:
    """What an earlier one has written stays."""
    for minute in (0, 1, 5):
        with writing(tmp_path, "prod") as writer:
            writer.add(snapshot(minute))
    assert [each.at.minute for each in read_archive(tmp_path, "prod")] == [0, 1, 5]


@pytest.mark.parametrize("rows", [1, 7, 40])
def test_an_archive_whose_writer_is_killed_has_all_that_was_flushed(
    tmp_path: Path, rows: int
) -> None:
    """Killed while it writes, it leaves a file that has every row of before, whole."""
    program = [sys.executable, "-c", _ENDLESS.format(directory=str(tmp_path))]
    environ = {"PYTHONPATH": f"{ROOT}:{ROOT / 'infra'}"}
    with subprocess.Popen(program, cwd=ROOT, env=environ, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(rows):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    read = list(read_archive(tmp_path, "prod"))
    assert len(read) >= rows
    assert read == [snapshot(minute) for minute in range(len(read))]
    with writing(tmp_path, "prod") as writer:
        writer.add(snapshot(len(read)))
    assert len(list(read_archive(tmp_path, "prod"))) == len(read) + 1


def test_a_stack_is_recorded_once_at_a_time(tmp_path: Path) -> None:
    """A second recording would put its rows in place of those of the first."""
    with (
        writing(tmp_path, "prod"),
        pytest.raises(ConflictError, match="already"),
        writing(tmp_path, "prod"),
    ):
        pass


@pytest.mark.parametrize("content", [b"", b"PAR1 and no more", b"text\n" * 100])
def test_a_file_that_is_no_table_is_named(tmp_path: Path, content: bytes) -> None:
    """The other days can still be read without it."""
    file = tmp_path / "date=2026-11-29" / "prod.parquet"
    file.parent.mkdir()
    file.write_bytes(content)
    with pytest.raises(TpuflexError, match=r"prod\.parquet cannot be read") as raised:
        list(read_archive(tmp_path, "prod"))
    assert "other days" in str(raised.value.hint)


def test_a_table_of_something_else_is_named(tmp_path: Path) -> None:
    """It has none of the columns."""
    import pyarrow.parquet

    file = tmp_path / "date=2026-11-29" / "prod.parquet"
    file.parent.mkdir()
    pyarrow.parquet.write_table(pyarrow.table({"at": [1], "x": ["y"]}), file)
    with pytest.raises(TpuflexError, match=r"prod\.parquet cannot be read"):
        list(read_archive(tmp_path, "prod"))


def test_the_only_stack_of_an_archive_needs_no_name(tmp_path: Path) -> None:
    """One that was chosen is that or none."""
    with writing(tmp_path, "prod") as writer:
        writer.add(snapshot(0))
    assert archived_stack(tmp_path, "prod") == "prod"
    assert archived_stack(tmp_path, "dev", chosen=False) == "prod"
    with pytest.raises(NotFoundError, match="some of prod: name one by --stack"):
        archived_stack(tmp_path, "dev")


def test_an_archive_without_the_stack_says_how_to_record_it(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no snapshot of stack prod") as raised:
        archived_stack(tmp_path, "prod", stacks=("dev", "prod"))
    assert "metrics record" in str(raised.value.hint)


def test_pyarrow_is_asked_for_by_the_name_of_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is written."""
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(TpuflexError, match="takes pyarrow") as raised, writing(tmp_path, "prod"):
        pass
    assert str(raised.value.hint) == "Run: pip install 'tpuflex[measure]'"


def test_rows_say_whose_they_are(tmp_path: Path) -> None:
    """Rows of several slices and stacks can be told apart where they are put together."""
    with writing(tmp_path, "prod") as writer:
        writer.add(snapshot(0))
    (read,) = read_archive(tmp_path, "prod")
    assert read.origin == ORIGIN
    assert read.at == datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
