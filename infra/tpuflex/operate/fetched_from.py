"""What a directory of a model was fetched from, as a note in it."""

from __future__ import annotations

from pathlib import Path

#: Hidden, so that it is never pushed.
_NOTE = ".tpuflex-source"
_LONGEST = 300


def source_of(directory: Path) -> str:
    """The source that ``directory`` was fetched from, as it was then; empty if from none."""
    try:
        return (directory / _NOTE).read_text("utf-8").strip()[:_LONGEST]
    except (OSError, UnicodeDecodeError):
        return ""


def note_source(directory: Path, source: str) -> None:
    """Note that ``directory`` was fetched from ``source``."""
    (directory / _NOTE).write_text(f"{source}\n", encoding="utf-8")
