"""Files that no other user reads, writes or swaps: the state directory and what lies in it."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from tpuflex.errors import EmulatorError
from tpuflex.trusted_files import own_directory

_FOR_OTHERS = 0o077
_WRITABLE_BY_OTHERS = 0o022


def private_directory(path: Path) -> None:
    """Make ``path`` a directory that only this user enters; one that is there is closed.

    Raises:
        EmulatorError: it is another user's, a symbolic link, or others could write to it.
    """
    own_directory(path.parent)
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _refused(path, f"it is no directory of its own ({error.strerror})") from error
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise _refused(path, f"it belongs to another user (uid {found.st_uid})")
        if found.st_mode & _WRITABLE_BY_OTHERS:
            raise _refused(path, "other users may write to it, and may have done so")
        os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def read_own(path: Path, *, secret: bool) -> str:
    """The text of a file that this user, and nobody else, has written.

    Args:
        path: the file.
        secret: whether others must not be able to read it, either.

    Raises:
        OSError: there is no such file, it is a symbolic link, or another user's work.
        UnicodeDecodeError: it is no text.
    """
    # O_NONBLOCK: a pipe in the file's place must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        found = os.fstat(descriptor)
        forbidden = _FOR_OTHERS if secret else _WRITABLE_BY_OTHERS
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if not own or found.st_mode & forbidden:
            raise PermissionError(1, "it is not this user's alone", str(path))
        return file.read()


def _refused(path: Path, why: str) -> EmulatorError:
    return EmulatorError(
        f"the embedded cloud does not keep its state in {path}: {why}",
        hint="Remove it, or name another place: TPUFLEX_HOME=DIRECTORY",
    )
