"""A directory that a model is fetched into: it gets its name once every file is there, with a note
of what it was fetched from."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from tpuflex.gcp.weights_files import Progress, Tally
from tpuflex.operate.resumed_download import Download, fetch_all, require_room

#: Hidden, so that it is never pushed.
_NOTE = ".tpuflex-source"
_LONGEST = 300


def source_of(directory: Path) -> str:
    """The source that ``directory`` was fetched from, as it was then; empty if from none."""
    try:
        return (directory / _NOTE).read_text("utf-8").strip()[:_LONGEST]
    except (OSError, UnicodeDecodeError):
        return ""


def fetch_directory(
    directory: Path,
    source: str,
    total_bytes: int,
    downloads: Callable[[Path], Iterable[Download]],
    progress: Progress,
) -> None:
    """Fetch a model into ``directory``, or go on with it.

    Args:
        directory: has this name only once everything is in it.
        source: what it is fetched from.
        total_bytes: of all files.
        downloads: its files on their way into a directory.
        progress: called with the bytes that are there and the total, by one thread at a time.

    Raises:
        WeightsError: there is not enough room, or a content is not what its source says.
        TpuflexError: what ``failed`` of a download raises.
    """
    unfinished = directory.with_name(f"{directory.name}.partial")
    unfinished.mkdir(mode=0o700, exist_ok=True)
    require_room(source, total_bytes, unfinished)
    fetch_all(downloads(unfinished), Tally(total_bytes, progress).add)
    (unfinished / _NOTE).write_text(f"{source}\n", encoding="utf-8")
    unfinished.rename(directory)
