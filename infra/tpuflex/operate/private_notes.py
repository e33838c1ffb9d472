"""Short texts that a home keeps for itself about sets of weights, in a private file."""

from __future__ import annotations

import json
from pathlib import Path

from tpuflex.only_maker import only_maker
from tpuflex.trusted_files import write_private


class PrivateNotes:
    """A note for each set, by bucket and prefix, in one file. One that is not readable as ours says
    nothing. Commands that run side by side lose none of each other's.

    Args:
        file: the file; made with the first note.
    """

    def __init__(self, file: Path) -> None:
        self._file = file

    def get(self, bucket: str, prefix: str) -> str | None:
        """The note about a set; None for none."""
        found = self._read().get(f"{bucket}/{prefix}")
        return found if isinstance(found, str) else None

    def buckets(self, prefix: str) -> tuple[str, ...]:
        """The buckets with a note about the set at ``prefix``."""
        found = (name.partition("/") for name in sorted(self._read()))
        return tuple(bucket for bucket, _, at in found if at == prefix)

    def put(self, bucket: str, prefix: str, text: str) -> None:
        """Keep ``text`` as the note about a set.

        Raises:
            OSError: the file cannot be written.
        """
        with only_maker(self._file):
            self._write({**self._read(), f"{bucket}/{prefix}": text})

    def forget(self, bucket: str, prefix: str) -> None:
        """Keep no note about a set.

        Raises:
            OSError: the file cannot be written.
        """
        if self.get(bucket, prefix) is None:
            return
        with only_maker(self._file):
            known = self._read()
            known.pop(f"{bucket}/{prefix}", None)
            self._write(known)

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, notes: dict[str, object]) -> None:
        write_private(self._file, json.dumps(notes, indent=1, sort_keys=True))
