"""Object bytes on disk: one file per generation, written in pieces, never whole in memory."""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

import google_crc32c

PIECE = 1 << 20


@dataclass(frozen=True, slots=True)
class Digest:
    """Size and hashes of some bytes. Hashes are base64, as Cloud Storage writes them."""

    size: int
    crc32c: str
    md5: str


class PartialContent:
    """Bytes that are still being received, in a file that is only appended to.

    Args:
        path: the file; an existing one is continued (its bytes are read again to hash them).
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._crc32c = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        if path.exists():
            self._reread()
        else:
            path.touch()

    def append(self, piece: bytes) -> None:
        """Write ``piece`` after what is there."""
        with self.path.open("ab") as file:
            file.write(piece)
        self._take(piece)

    def cut(self, size: int) -> None:
        """Drop everything after the first ``size`` bytes."""
        if size < self.size:
            os.truncate(self.path, size)
            self._reread()

    def digest(self) -> Digest:
        """Size and hashes of what has arrived."""
        return Digest(
            self.size,
            base64.b64encode(self._crc32c.to_bytes(4, "big")).decode(),
            base64.b64encode(self._md5.digest()).decode(),
        )

    def _take(self, piece: bytes) -> None:
        self._crc32c = google_crc32c.extend(self._crc32c, piece)
        self._md5.update(piece)
        self.size += len(piece)

    def _reread(self) -> None:
        self.size = 0
        self._crc32c = 0
        self._md5 = hashlib.md5(usedforsecurity=False)
        with self.path.open("rb") as file:
            while piece := file.read(PIECE):
                self._take(piece)


class ContentFiles:
    """The directory of all bytes: ``objects/`` and, while they are received, ``uploads/``.

    A file has a random name that its record in the store carries, so nothing in a
    bucket's or an object's name can reach outside the directory.

    Args:
        directory: created when missing.
    """

    def __init__(self, directory: Path) -> None:
        self._objects = directory / "objects"
        self._uploads = directory / "uploads"
        for each in (self._objects, self._uploads):
            each.mkdir(parents=True, exist_ok=True)

    def upload_path(self, upload_id: str) -> Path:
        """The file of one upload. ``upload_id`` is one that was issued here."""
        return self._uploads / upload_id

    def path(self, content: str) -> Path:
        """The file of stored bytes."""
        return self._objects / content

    def keep(self, partial: PartialContent) -> str:
        """Turn a finished upload into stored bytes; returns their name."""
        content = new_id()
        partial.path.rename(self.path(content))
        return content

    def link(self, content: str) -> str:
        """A second name for the same bytes (a copy that shares the disk)."""
        copy = new_id()
        try:
            self.path(copy).hardlink_to(self.path(content))
        except OSError:
            shutil.copyfile(self.path(content), self.path(copy))
        return copy

    def remove(self, content: str) -> None:
        """Delete stored bytes, if they still exist."""
        self.path(content).unlink(missing_ok=True)

    def sweep(self, contents: set[str], uploads: set[str]) -> None:
        """Delete files that no record refers to: leftovers of a crash between two writes."""
        for directory, known in ((self._objects, contents), (self._uploads, uploads)):
            for file in directory.iterdir():
                if file.name not in known:
                    file.unlink(missing_ok=True)


def new_id() -> str:
    """A name that cannot be guessed: an upload id is the key to its upload."""
    return secrets.token_hex(20)
