"""The SHA-256 of executables that were built or downloaded here, checked before they run.

The record lies beside the executable, in a directory that only this user can write to
(:mod:`tpuflex.trusted_files`), so it guards against what changes a file by mistake: a half-written
copy, a tool that patches, a restored backup. Hashing an engine takes a fifth of a second, so it is
done only when inode, size or one of the times differ from the record's; the time of the last
change (ctime) cannot be set by a program.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tpuflex.trusted_files import write_private

_Stamp = list[int]


def seal(executable: Path) -> None:
    """Record what ``executable`` is now."""
    _write(executable, file_sha256(executable), _stamp(executable))


def broken_seal(executable: Path) -> str | None:
    """Why ``executable`` is not what was sealed; None if it is.

    One without a record (of an older tpuflex) is sealed as it is.
    """
    record = _record(executable)
    try:
        try:
            document = json.loads(record.read_text("utf-8"))
            sealed, stamp = str(document["sha256"]), document["stamp"]
        except FileNotFoundError:
            seal(executable)
            return None
        except (ValueError, KeyError, TypeError):
            return f"{record} is not a record of its SHA-256"
        if stamp == _stamp(executable):
            return None
        found = file_sha256(executable)
        if found != sealed:
            return f"its SHA-256 is {found[:12]}…, not {sealed[:12]}… as when it was installed"
        _write(executable, sealed, _stamp(executable))
    except OSError as error:
        return f"its SHA-256 cannot be checked ({error.strerror})"
    return None


def _record(executable: Path) -> Path:
    return executable.with_name(f"{executable.name}.sha256.json")


def _stamp(executable: Path) -> _Stamp:
    found = executable.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


def file_sha256(file: Path) -> str:
    """The SHA-256 of what ``file`` holds, in hexadecimal digits."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _write(executable: Path, sha256: str, stamp: _Stamp) -> None:
    write_private(_record(executable), json.dumps({"sha256": sha256, "stamp": stamp}))
