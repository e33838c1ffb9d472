"""The archive of what a server counts: a row per snapshot, in a Parquet file per stack and day.

A row has the counters as they stand and the buckets of the histograms, and no rate or quantile:
those of several snapshots cannot be put together again. Days are those of UTC, and their
directories are named as Hive's partitions (``date=2026-11-29``), so that other tools read a whole
archive as one table.

A day's file is written whole and put in place in one step each time, so that it can be read
whatever ends the recording. A busy day of snapshots a minute apart is about 160 kB.
"""

from __future__ import annotations

import fcntl
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.files.trusted import own_directory, write_private
from tpuflex.measure.metrics import EngineMetrics, Histogram, KvCache

if TYPE_CHECKING:
    import pyarrow

#: Seconds between two snapshots, unless something else is asked for.
INTERVAL = 60
#: The extra that reads and writes Parquet.
_EXTRA = "pip install 'tpuflex[measure]'"
_NUMBERS = (
    *("running", "waiting", "kv_use", "prompt_tokens", "cached_tokens", "prefix_queries"),
    *("prefix_hits", "generation_tokens", "preemptions", "steps", "started", "resident_bytes"),
    "cpu_seconds",
)
_HISTOGRAMS = ("ttft", "inter_token", "e2e", "queue")


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
    own_directory(directory)
    with (directory / f".{stack}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConflictError(
                f"Stack {stack} is being recorded in {directory} already.",
                hint="Name another directory, or end the other recording.",
            ) from None
        try:
            yield writer
        finally:
            writer.flush()


def day_file(directory: Path, stack: str, at: datetime) -> Path:
    """The file of the archive that has the snapshot of ``stack`` at that time."""
    return directory / f"date={at.astimezone(UTC):%Y-%m-%d}" / f"{stack}.parquet"


def archived_stack(directory: Path, stack: str, *, chosen: bool = True) -> str:
    """The stack whose snapshots are read: ``stack``; where nobody has chosen it and the archive in
    ``directory`` has only another, that one.

    Raises:
        NotFoundError: it has none of ``stack``.
    """
    there = sorted({file.stem for file in directory.glob("date=*/*.parquet")})
    if stack in there:
        return stack
    if len(there) == 1 and not chosen:
        return there[0]
    others = f" It has some of {', '.join(there)}: name one by --stack." if there else ""
    raise NotFoundError(
        f"There is no snapshot of stack {stack} in {directory}.{others}",
        hint=f"`tpuflex --stack {stack} metrics record {directory}` makes them, until Ctrl-C.",
    )


def read_archive(directory: Path, stack: str, since: datetime | None = None) -> Iterator[Snapshot]:
    """The snapshots of ``stack`` in the archive in ``directory``, the oldest first.

    Raises:
        NotFoundError: there are none.
        TpuflexError: there is no pyarrow, or a file cannot be read.
    """
    _pyarrow_parquet()
    files = sorted(directory.glob(f"date=*/{archived_stack(directory, stack)}.parquet"))
    first = day_file(directory, stack, since) if since is not None else files[0]
    for file in files:
        if file >= first:
            for batch in _read(file).combine_chunks().to_batches():
                yield from (one for one in _snapshots(batch) if since is None or one.at >= since)


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

    try:
        table = _pyarrow_parquet().read_table(file, schema=_schema(), partitioning=None)
        if any(table.column(name).null_count for name in ("at", *_texts(), "interval", "gap")):
            raise pyarrow.ArrowInvalid("a column of every snapshot is missing, or empty")
    except (pyarrow.ArrowException, OSError) as error:
        raise TpuflexError(
            f"{file} cannot be read as snapshots of metrics: {str(error).splitlines()[0][:200]}",
            hint="Move it out of the archive; the other days can be read without it.",
        ) from error
    return table


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
        origin = Origin(**{name: row[name] for name in names})
        metrics = None
        if not row["gap"]:
            metrics = _metrics(row, {name: histograms[name][number] for name in _HISTOGRAMS})
        yield Snapshot(at=row["at"], origin=origin, metrics=metrics, gap=row["gap"])


def _metrics(row: Mapping[str, Any], histograms: Mapping[str, Histogram | None]) -> EngineMetrics:
    cache = KvCache(row["block_size"], row["kv_blocks"], row["kv_tokens"], row["kv_dtype"] or "")
    counted: dict[str, Any] = {name: row[name] for name in _NUMBERS} | dict(histograms)
    success = dict(row["success"] or ())
    return EngineMetrics(at=row["at"], kv_cache=cache, success=success, **counted)


def _histograms(column: pyarrow.StructArray) -> list[Histogram | None]:
    """A column of histograms. Value by value, Arrow takes ten times as long."""
    lists = column.field("buckets")
    bounds = lists.values.field("le").to_pylist()
    counts = lists.values.field("count").to_pylist()
    buckets = list(zip(bounds, counts, strict=True))
    ends, sums = lists.offsets.to_pylist(), column.field("sum").to_pylist()
    return [
        Histogram(tuple(buckets[begin:end]), total) if known else None
        for begin, end, total, known in zip(
            ends, ends[1:], sums, column.is_valid().to_pylist(), strict=False
        )
    ]
