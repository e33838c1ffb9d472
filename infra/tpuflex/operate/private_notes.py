"""Short texts by name that a home keeps for itself, in a private file."""

from __future__ import annotations

import json
from pathlib import Path

from tpuflex.trusted_files import own_directory, write_private


class PrivateNotes:
    """Notes in one file. One that is not readable as ours says nothing.

    Args:
        file: the file; made with the first note.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, name: str) -> str | None:
        """The note ``name``; None for none."""
        found = self._read().get(name)
        return found if isinstance(found, str) else None

    def put(self, name: str, text: str) -> None:
        """Keep ``text`` as the note ``name``.

        Raises:
            OSError: the file cannot be written.
        """
        self._write({**self._read(), name: text})

    def forget(self, name: str) -> None:
        """Keep no note ``name``.

        Raises:
            OSError: the file cannot be written.
        """
        known = self._read()
        if known.pop(name, None) is not None:
            self._write(known)

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, notes: dict[str, object]) -> None:
        own_directory(self._file.parent)
        write_private(self._file, json.dumps(notes, indent=1, sort_keys=True))
