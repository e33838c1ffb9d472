"""Which removals of weights this home has begun: a private file.

A removal takes the manifest first. What it leaves when it is killed looks like what a push that is
under way has brought so far; what was there when it began, and nothing since, is what it left.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from tpuflex.operate.private_notes import PrivateNotes

_FILE = "begun-removals.json"


class BegunRemovals:
    """When the last file was written of each set whose removal was begun, by bucket and prefix.

    Args:
        home: tpuflex's state directory.
    """

    def __init__(self, home: Path) -> None:
        self._notes = PrivateNotes(home / _FILE)

    def begin(self, bucket: str, prefix: str, written: dt.datetime | None) -> None:
        """Remember that a set is being removed whose last file was ``written`` then.

        Raises:
            OSError: the file cannot be written.
        """
        if written is not None:
            self._notes.put(f"{bucket}/{prefix}", written.isoformat())

    def left(self, bucket: str, prefix: str, written: dt.datetime | None) -> bool:
        """Whether files there, the last of them ``written`` then, are what a removal has left."""
        note = self._notes.get(f"{bucket}/{prefix}")
        try:
            begun = dt.datetime.fromisoformat(note or "")
        except ValueError:
            return False
        return written is not None and begun.tzinfo is not None and written <= begun

    def end(self, bucket: str, prefix: str) -> None:
        """Remember no more that the set is being removed.

        Raises:
            OSError: the file cannot be written.
        """
        self._notes.forget(f"{bucket}/{prefix}")
