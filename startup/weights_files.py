"""The files of a manifest on the host: which parts of them are there and checked.

A file is written under another name. A line of its ledger says that a part is checked, and is
written after the part; so whatever kills a download, the next one fetches the parts without a
line, and trusts no others. Ledgers and records end with the boot. Files that lie on a disk do not:
those of which neither speaks are read again, and stay where the sums are right. A file without sums
of parts (shorter than a part) is one part. ``download.py`` uses this, beside which the
startup script writes it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Bytes between network or disk, hash and file at a time: smaller ones need more calls.
BLOCK = 1024 * 1024


@dataclass(frozen=True)
class Part:
    """A range of a file, and its SHA-256."""

    start: int
    length: int
    sha256: str


@dataclass(frozen=True)
class WeightsFile:
    """A file to fetch: ``flat`` is its path as one file name."""

    path: str
    size: int
    sha256: str
    url: str
    flat: str
    parts: tuple[Part, ...]


def read_files(records: Path) -> list[WeightsFile]:
    """The files that ``manifest.py`` wrote down."""
    return [
        WeightsFile(
            each["path"],
            each["size"],
            each["sha256"],
            each["url"],
            each["flat"],
            tuple(_parts(each["size"], each["part_bytes"], each["sums"])),
        )
        for each in json.loads(records.read_text(encoding="utf-8"))
    ]


def _parts(size: int, part_bytes: int, sums: list[str]) -> Iterator[Part]:
    for number, sha256 in enumerate(sums):
        start = number * part_bytes
        yield Part(start, size if len(sums) == 1 else min(part_bytes, size - start), sha256)


@dataclass(frozen=True)
class Places:
    """Where files are, by their flat name but for ``weights``.

    Attributes:
        weights: those that are checked.
        checked: a record each of what was checked, and when it was written last.
        partial: those that are being fetched.
        ledgers: which parts of them are checked.
    """

    weights: Path
    checked: Path
    partial: Path
    ledgers: Path

    @classmethod
    def of(cls, environ: os._Environ[str]) -> Places:
        """The directories that the startup script has made."""
        names = ("WEIGHTS_DIR", "CHECKED_DIR", "PARTIAL_DIR", "LEDGERS_DIR")
        return cls(*(Path(environ[name]) for name in names))

    def is_checked(self, file: WeightsFile) -> bool:
        """Whether ``file`` was checked against this sum and is untouched since; hashing it again at
        every run would take the processor from a server at work."""
        try:
            record = (self.checked / file.flat).read_text(encoding="ascii")
            found = (self.weights / file.path).stat()
        except OSError:
            return False
        return found.st_size == file.size and record == _record(file, found)

    def unchecked(self, file: WeightsFile) -> list[int]:
        """The numbers of the parts that are to be fetched, with a file to write them to."""
        self._take_back(file)
        partial, ledger = self.partial / file.flat, self.ledgers / file.flat
        if len(file.parts) == 1:
            # Written from its beginning to its end: its size says what is there.
            ledger.unlink(missing_ok=True)
            if partial.exists() and partial.stat().st_size > file.size:
                partial.unlink()
            return [0]
        if not ledger.exists() and _has_size(partial, file.size):
            ledger.write_text(_ledger_head(file, partial.stat()), encoding="ascii")
        lines = dict(zip(_ledger_lines(file), range(len(file.parts)), strict=True))
        try:
            head, *found = ledger.read_text(encoding="ascii").splitlines(keepends=True)
            if head == _ledger_head(file, partial.stat()):
                checked = {lines[line] for line in found if line in lines}
                return [number for number in range(len(file.parts)) if number not in checked]
        except (OSError, ValueError):
            pass
        # The ledger first: a new file may get the inode of the old one.
        ledger.unlink(missing_ok=True)
        partial.unlink(missing_ok=True)
        with partial.open("xb") as new:
            new.truncate(file.size)
        ledger.write_text(_ledger_head(file, partial.stat()), encoding="ascii")
        return list(range(len(file.parts)))

    def _take_back(self, file: WeightsFile) -> None:
        """Take its name from ``file`` as it is there, unchecked. Without a record it is of an
        earlier boot, and may be right."""
        target, record = self.weights / file.path, self.checked / file.flat
        if not record.exists() and _has_size(target, file.size):
            target.replace(self.partial / file.flat)
        for stale in (target, record, self.partial / file.flat):
            if stale.is_dir():  # nothing of ours makes one there
                shutil.rmtree(stale)
        for stale in (target, record):
            stale.unlink(missing_ok=True)

    def holds(self, file: WeightsFile, number: int) -> bool:
        """Whether a part that has no line is in its place all the same. Where nothing was written
        is a hole, of which nothing is read; a file of one part is read by what goes on with it."""
        part, digest = file.parts[number], hashlib.sha256()
        left = part.length
        try:
            with (self.partial / file.flat).open("rb", buffering=0) as partial:
                if len(file.parts) == 1 or partial.seek(part.start, os.SEEK_DATA) > part.start:
                    return False
                while left and (block := partial.read(min(BLOCK, left))):
                    digest.update(block)
                    left -= len(block)
        except OSError:
            return False
        return digest.hexdigest() == part.sha256

    def mark(self, file: WeightsFile, number: int) -> None:
        """Write down that a part is checked."""
        if len(file.parts) > 1:
            with (self.ledgers / file.flat).open("a", encoding="ascii") as ledger:
                ledger.write(_ledger_line(number, file.parts[number]))

    def finish(self, file: WeightsFile) -> None:
        """Give ``file``, all parts of which are checked, its name. The record first: it holds for
        no other file, and without it the file would be fetched again."""
        partial, target = self.partial / file.flat, self.weights / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        (self.checked / file.flat).write_text(_record(file, partial.stat()), encoding="ascii")
        partial.replace(target)
        (self.ledgers / file.flat).unlink(missing_ok=True)

    def remove_strangers(self, files: list[WeightsFile]) -> None:
        """A server reads whatever lies beside the weights: keep only what the manifest names."""
        named = {file.path for file in files}
        for folder, _, names in os.walk(self.weights):
            for path in (Path(folder, name) for name in names):
                if str(path.relative_to(self.weights)) not in named:
                    path.unlink()


def _has_size(path: Path, size: int) -> bool:
    """Whether ``path`` is a file of that size, and no link to one."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == size


def _record(file: WeightsFile, found: os.stat_result) -> str:
    seconds, nanoseconds = divmod(found.st_mtime_ns, 10**9)
    return f"{file.sha256} {found.st_size} {seconds}.{nanoseconds:09d}"


def _ledger_head(file: WeightsFile, found: os.stat_result) -> str:
    return f"{file.size} {file.parts[0].length} {found.st_size} {found.st_ino}\n"


def _ledger_line(number: int, part: Part) -> str:
    return f"{number} {part.sha256}\n"


def _ledger_lines(file: WeightsFile) -> list[str]:
    return [_ledger_line(number, part) for number, part in enumerate(file.parts)]
