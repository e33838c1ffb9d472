"""The archive of what a server counts: a row per snapshot, in a Parquet file per stack and day.

A row has the counters as they stand and the buckets of the histograms, and no rate or quantile:
those of several snapshots cannot be put together again. Days are those of UTC, and their
directories are named as Hive's partitions (``date=2026-11-29``), so that other tools read a whole
archive as one table.

A day's file is written whole and put in place in one step each time, so that it can be read
whatever ends the recording. A busy day of snapshots a minute apart is about 160 kB.
"""

from __future__ import annotations

import glob
import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulumi_plugin.printable import is_printable, printable
from tpuflex.both_ends import both_ends
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.files.trusted import creation_lock, open_regular, own_directory, write_private
from tpuflex.measure.metrics import MOST, EngineMetrics, Histogram, KvCache

if TYPE_CHECKING:
    import pyarrow

#: Seconds between two snapshots, unless something else is asked for.
INTERVAL = 60
#: The extra that reads and writes Parquet.
_EXTRA = "pip install 'tpuflex[measure]'"
_NUMBERS = (
    *("running", "waiting", "kv_use", "prompt_tokens", "cached_tokens", "prefix_queries"),
    *("prefix_hits", "generation_tokens", "preemptions", "steps", "started", "resident_bytes"),
)
_HISTOGRAMS = ("ttft", "inter_token", "e2e", "queue")
_FILES = "date=*/{}.parquet"
#: What a file of somebody else's may hold: a day of snapshots, 10 s apart, has 8,640.
_MOST_ROWS, _MOST_BYTES = 20_000, 256 * 1024 * 1024
#: Rows that are made snapshots at once.
_BATCH = 1024
#: Years of snapshots.
_BEGIN, _END = 2000, 3000
#: Other stacks that an error names.
_MOST_NAMES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Whose snapshot it is.

    Attributes:
        stack: the stack.
        cloud: ``google`` or ``embedded``.
        slice: the node of its slice; empty while there is none, and nothing is paid for.
        zone: where that is.
        accelerator: its accelerator type.
        model: the served model.
        vllm: version of the server; empty where it does not say.
        settings_hash: of the settings that decide how it serves.
        max_model_len: tokens of the longest sequence; None where it is not known.
        max_num_seqs: sequences that are computed at once; None where it is not known.
        interval: seconds to the next snapshot, if all goes well.
    """

    stack: str
    cloud: str = "google"
    slice: str = ""
    zone: str = ""
    accelerator: str = ""
    model: str = ""
    vllm: str = ""
    settings_hash: str = ""
    max_model_len: int | None = None
    max_num_seqs: int | None = None
    interval: int = INTERVAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One look at a server.

    Attributes:
        at: when.
        origin: whose it is.
        metrics: what it counts; None if it did not answer.
        gap: why not.
    """

    at: datetime
    origin: Origin
    metrics: EngineMetrics | None = None
    gap: str = ""


class Writer:
    """Adds snapshots of one stack to an archive; made by :func:`writing`.

    Args:
        directory: the archive.
        stack: the stack.
    """

    def __init__(self, directory: Path, stack: str) -> None:
        self._parquet = _pyarrow_parquet()
        self._directory = directory
        self._stack = stack
        self._file: Path | None = None
        self._written: pyarrow.Table = _table(())
        self._pending: list[Snapshot] = []

    def add(self, snapshot: Snapshot) -> None:
        """Take a snapshot; :meth:`flush` writes it."""
        file = day_file(self._directory, self._stack, snapshot.at)
        if file != self._file:
            self.flush()
            self._file, self._written = file, _read(file) if file.exists() else _table(())
        self._pending.append(snapshot)

    def flush(self) -> None:
        """Write what was taken."""
        if self._file is None or not self._pending:
            return
        import pyarrow

        table = pyarrow.concat_tables([self._written, _table(self._pending)]).combine_chunks()
        content = io.BytesIO()
        # Counters rarely repeat: dictionaries would make the file larger by half.
        self._parquet.write_table(
            table, content, compression="zstd", compression_level=9, use_dictionary=False
        )
        own_directory(self._file.parent)
        write_private(self._file, content.getvalue())
        self._written, self._pending = table, []


@contextmanager
def writing(directory: Path, stack: str) -> Iterator[Writer]:
    """A writer of the archive in ``directory``; what it has taken is written in the end.

    Raises:
        ConflictError: another process records the stack there.
        TpuflexError: there is no pyarrow, or the day's file cannot be read.
    """
    writer = Writer(directory, stack)

    def taken() -> None:
        raise ConflictError(
            f"Stack {stack} is being recorded in {directory} already.",
            hint="Name another directory, or end the other recording.",
        )

    with creation_lock(directory / f".{stack}", waits=taken):
        try:
            yield writer
        finally:
            writer.flush()


def day_file(directory: Path, stack: str, at: datetime) -> Path:
    """The file of the archive that has the snapshot of ``stack`` at that time."""
    return directory / f"date={at.astimezone(UTC):%Y-%m-%d}" / f"{stack}.parquet"


def archived_stack(
    directory: Path, stack: str, *, chosen: bool = True, stacks: Collection[str] = ()
) -> str:
    """The stack whose snapshots are read: ``stack``; where nobody has chosen it and the archive in
    ``directory`` has only another, that one.

    Args:
        directory: the archive.
        stack: the stack.
        chosen: whether somebody has chosen it.
        stacks: those that could be recorded.

    Raises:
        NotFoundError: it has none of ``stack``.
    """
    there = sorted(filter(is_printable, {file.stem for file in directory.glob(_FILES.format("*"))}))
    if stack in there:
        return stack
    if len(there) == 1 and not chosen:
        return there[0]
    few = ", ".join(there[:_MOST_NAMES]) + (", …" if len(there) > _MOST_NAMES else "")
    others = f" It has some of {few}: name one by --stack." if there else ""
    recording = f"`tpuflex --stack {stack} metrics record {directory}` makes them, until Ctrl-C."
    raise NotFoundError(
        f"There is no snapshot of stack {stack} in {directory}.{others}",
        hint=recording if stack in stacks else "",
    )


def read_archive(directory: Path, stack: str, since: datetime | None = None) -> Iterator[Snapshot]:
    """The snapshots of ``stack`` in the archive in ``directory``, the oldest first.

    Raises:
        NotFoundError: there are none.
        TpuflexError: there is no pyarrow, or a file cannot be read.
    """
    _pyarrow_parquet()
    name = glob.escape(archived_stack(directory, stack))
    files = sorted(directory.glob(_FILES.format(name)))
    first = day_file(directory, stack, since) if since is not None else files[0]
    for file in files:
        if file >= first:
            for batch in _read(file).to_batches(max_chunksize=_BATCH):
                try:
                    snapshots = list(_snapshots(batch))
                except (ValueError, OverflowError) as error:  # Arrow's are ValueErrors, too
                    raise _unreadable(file, error) from error
                yield from (one for one in snapshots if since is None or one.at >= since)


def _pyarrow_parquet() -> Any:
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise TpuflexError(
            "The archive of metrics is Parquet, which takes pyarrow.", hint=f"Run: {_EXTRA}"
        ) from error
    return pyarrow.parquet


def _read(file: Path) -> pyarrow.Table:
    import pyarrow

    parquet = _pyarrow_parquet()
    try:
        with open_regular(file) as opened:
            found = parquet.read_metadata(opened)
        groups = map(found.row_group, range(found.num_row_groups))
        if (
            found.num_rows > _MOST_ROWS
            or sum(each.total_byte_size for each in groups) > _MOST_BYTES
        ):
            raise pyarrow.ArrowInvalid("it holds more than a day has")
        table = parquet.read_table(file, schema=_schema(), partitioning=None)
        if any(table.column(name).null_count for name in ("at", *_texts(), "interval", "gap")):
            raise pyarrow.ArrowInvalid("a column of every snapshot is missing, or empty")
    except (pyarrow.ArrowException, OSError) as error:
        raise _unreadable(file, error) from error
    return table


def _unreadable(file: Path, error: Exception) -> TpuflexError:
    said = str(getattr(error, "strerror", None) or error)
    said = both_ends(printable(" ".join(said.split())), 200)
    return TpuflexError(
        f"{file} cannot be read as snapshots of metrics: {said}",
        hint="Move it out of the archive; the other days can be read without it.",
    )


def _schema() -> pyarrow.Schema:
    """The columns of a row, in the words of :class:`Origin` and of :class:`EngineMetrics`."""
    import pyarrow as pa

    buckets = pa.list_(pa.struct([("le", pa.float64()), ("count", pa.float64())]))
    histogram = pa.struct([("buckets", buckets), ("sum", pa.float64())])
    return pa.schema(
        [
            ("at", pa.timestamp("ms", tz="UTC")),
            *((name, pa.string()) for name in _texts()),
            *((name, pa.int64()) for name in ("max_model_len", "max_num_seqs", "interval")),
            ("gap", pa.string()),
            *((name, pa.float64()) for name in _NUMBERS),
            ("success", pa.map_(pa.string(), pa.float64())),
            *((name, histogram) for name in _HISTOGRAMS),
            *((name, pa.int64()) for name in ("block_size", "kv_blocks", "kv_tokens")),
            ("kv_dtype", pa.string()),
        ]
    )


def _texts() -> list[str]:
    return [each.name for each in fields(Origin) if each.type == "str"]


def _table(snapshots: Sequence[Snapshot]) -> pyarrow.Table:
    import pyarrow

    return pyarrow.Table.from_pylist(list(map(_row, snapshots)), schema=_schema())


def _row(snapshot: Snapshot) -> dict[str, object]:
    origin, metrics = snapshot.origin, snapshot.metrics
    row: dict[str, object] = {"at": snapshot.at, "gap": snapshot.gap}
    row |= {each.name: getattr(origin, each.name) for each in fields(Origin)}
    if metrics is None:
        return row
    row |= {name: getattr(metrics, name) for name in _NUMBERS}
    row["success"] = list(metrics.success.items())
    for name in _HISTOGRAMS:
        found: Histogram | None = getattr(metrics, name)
        if found is not None:
            buckets = [{"le": bound, "count": count} for bound, count in found.buckets]
            row[name] = {"buckets": buckets, "sum": found.sum}
    if (cache := metrics.kv_cache) is not None:
        row |= {"block_size": cache.block_size, "kv_blocks": cache.blocks}
        row |= {"kv_tokens": cache.tokens, "kv_dtype": cache.dtype}
    return row


def _snapshots(batch: pyarrow.RecordBatch) -> Iterator[Snapshot]:
    names = [each.name for each in fields(Origin)]
    histograms = {name: _histograms(batch.column(name)) for name in _HISTOGRAMS}
    for number, row in enumerate(batch.drop_columns(list(_HISTOGRAMS)).to_pylist()):
        if not _BEGIN <= row["at"].year < _END:
            raise ValueError(f"a snapshot of the year {row['at'].year}")
        origin = Origin(**{name: row[name] for name in names})
        _require_counts((origin.max_model_len, origin.max_num_seqs, origin.interval))
        metrics = None
        if not row["gap"]:
            metrics = _metrics(row, {name: histograms[name][number] for name in _HISTOGRAMS})
        yield Snapshot(at=row["at"], origin=origin, metrics=metrics, gap=row["gap"])


def _require_counts(numbers: Iterable[float | None]) -> None:
    if not all(each is None or 0 <= each <= MOST for each in numbers):
        raise ValueError("a number that nothing can have counted")


def _metrics(row: Mapping[str, Any], histograms: Mapping[str, Histogram | None]) -> EngineMetrics:
    cache = KvCache(row["block_size"], row["kv_blocks"], row["kv_tokens"], row["kv_dtype"] or "")
    counted: dict[str, Any] = {name: row[name] for name in _NUMBERS} | dict(histograms)
    success = {key: count for key, count in row["success"] or () if count is not None}
    names = (*_NUMBERS, "block_size", "kv_blocks", "kv_tokens")
    _require_counts((*(row[name] for name in names), *success.values()))
    return EngineMetrics(at=row["at"], kv_cache=cache, success=success, **counted)


def _histograms(column: pyarrow.StructArray) -> list[Histogram | None]:
    """A column of histograms. Value by value, Arrow takes ten times as long."""
    lists = column.field("buckets")
    ends, sums = lists.offsets.to_pylist(), column.field("sum").to_pylist()
    first = ends[0]
    values = lists.values.slice(first, ends[-1] - first)
    if values.null_count or any(each.null_count for each in values.flatten()):
        raise ValueError("a histogram with an empty bucket")
    bounds, counts = (values.field(name).to_pylist() for name in ("le", "count"))
    buckets = list(zip(bounds, counts, strict=True))
    histograms = [
        Histogram(tuple(buckets[begin - first : end - first]), total) if known else None
        for begin, end, total, known in zip(
            ends, ends[1:], sums, column.is_valid().to_pylist(), strict=False
        )
    ]
    if not all(each is None or each.sound for each in histograms):
        raise ValueError("a histogram of what nobody can have observed")
    return histograms
