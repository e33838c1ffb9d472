"""The text of ``MANIFEST.json``, and the sums that it is made of.

The text follows from model, revision and files alone, to the byte: its SHA-256 is what a host is
told (:mod:`tpuflex.boot.manifest`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

#: Metadata of the manifest's object: the source, with its commit, that the weights came from.
SOURCE_METADATA = "tpuflex-source"
#: Bytes of a part: few enough that a stream which dies costs little, many enough that asking for
#: them costs nothing.
PART_BYTES = 64 * 2**20


@dataclass(frozen=True, slots=True)
class FileEntry:
    """What a manifest says of one file.

    Attributes:
        path: path below the prefix, with forward slashes.
        size: size in bytes.
        crc32c: CRC32C as Cloud Storage writes it.
        sha256: SHA-256 in hex.
        parts: SHA-256 in hex of each part, where the file is longer than one.
    """

    path: str
    size: int
    crc32c: str
    sha256: str
    parts: tuple[str, ...] = ()


def manifest_document(
    files: Iterable[FileEntry],
    *,
    model: str,
    revision: str,
    total_bytes: int,
    part_bytes: int,
) -> str:
    """The document as it is stored in the bucket.

    Args:
        files: every file, sorted by path.
        model: name under which the model is served.
        revision: names this set of weights.
        total_bytes: sum of all sizes.
        part_bytes: bytes of a part.
    """
    document: dict[str, Any] = {
        "schema": 2,
        "model": model,
        "revision": revision,
        "total_bytes": total_bytes,
        "part_bytes": part_bytes,
        "files": [_entry(file) for file in files],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


@dataclass(slots=True)
class FileSums:
    """SHA-256 of a file and of its parts, as its bytes go by.

    Attributes:
        size: bytes so far.
    """

    part_bytes: int = PART_BYTES
    size: int = 0
    _whole: Any = field(default_factory=hashlib.sha256)
    _parts: list[Any] = field(default_factory=list)

    def update(self, block: bytes) -> None:
        """Take the next bytes."""
        self._whole.update(block)
        view = memoryview(block)
        while view:
            room = self.part_bytes - self.size % self.part_bytes
            if room == self.part_bytes:
                self._parts.append(hashlib.sha256())
            piece = view[:room]
            self._parts[-1].update(piece)
            self.size += len(piece)
            view = view[room:]

    @property
    def sha256(self) -> str:
        """SHA-256 in hex of all bytes."""
        return str(self._whole.hexdigest())

    @property
    def parts(self) -> tuple[str, ...]:
        """SHA-256 in hex of each part; empty if there is only one."""
        several = len(self._parts) > 1
        return tuple(str(part.hexdigest()) for part in self._parts) if several else ()


def _entry(file: FileEntry) -> dict[str, Any]:
    fixed = {"path": file.path, "size": file.size, "crc32c": file.crc32c, "sha256": file.sha256}
    return {**fixed, "parts": list(file.parts)} if file.parts else fixed
