"""Files that are this user's alone: made so, by one maker at a time, and, where
they were there before, checked.

A command run anywhere below a project acts on what lies in it. So the project's own places are
checked as `git` checks a repository
(https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory): this user or root
owns them, and nobody else may write to them. This finds a project that another user has put
above the working directory, and the one that was made for everybody to write to; what lies deeper
in a project of one's own, and on the way to it, is not looked at (docs/security.md, P3).

A place that its group may write to passes if nobody but this user and root is in that group: with
umask 002 every user has such a group (Debian's OpenSSH decides alike, "user-group-modes" in its
patches).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shlex
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO

from pulumi_plugin.user_namespace import stands_for_many
from tpuflex.errors import AccessError

#: The uid of a user whose files are trusted as one's own, for containers and mounts where a
#: project has another owner than the user who runs its commands.
TRUSTED_UID_VARIABLE = "TPUFLEX_TRUSTED_UID"

_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def require_own(places: Iterable[Path], environ: Mapping[str, str]) -> None:
    """Refuse to use ``places`` if others could change one of them.

    Args:
        places: files and directories; links are followed, and what is missing is ours to make.
        environ: may name a user to trust (:data:`TRUSTED_UID_VARIABLE`).

    Raises:
        AccessError: they could; says where, and what to do about all that is found.
    """
    trusted = _trusted_users(environ)
    writable: dict[Path, str] = {}
    for place in places:
        try:
            found = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise AccessError(
                f"Refused to use {place}: it cannot be looked at ({error.strerror}).",
                hint="Work in a directory of your own.",
            ) from error
        if found.st_uid not in trusted:
            raise _another_users(place, found.st_uid)
        if who := _other_writers(place, found, trusted):
            writable[place] = who
    if writable:
        (place, who), *others = writable.items()
        whom = "every user" if "o" in who else "its group"
        also = f" So can {len(others)} more." if others else ""
        letters = "".join(letter for letter in "go" if any(letter in w for w in writable.values()))
        raise AccessError(
            f"Refused to use {place}: it can be written to by {whom}.{also}",
            hint=f"Run: chmod {letters}-w {shlex.join(map(str, writable))}",
        )


def own_directory(path: Path) -> None:
    """Make ``path`` and what is missing above it, for this user only, whatever the umask."""
    for directory in (*reversed(path.parents), path):
        try:
            directory.mkdir(mode=0o700)
        except OSError:  # also of one that is there, where nothing can be made
            if not directory.is_dir():
                raise


def write_private(path: Path, content: str | bytes) -> None:
    """Put a file with ``content``, mode 0600, at ``path`` in one step; what was there is
    replaced."""
    _replace(path, content, 0o600)


#: The most bytes of a file that holds a secret.
_SECRET_BYTES = 64 * 1024


def read_private(path: Path) -> str:
    """The text of a file that has a secret, which nobody but this user may read.

    Raises:
        AccessError: it cannot be read, others can read it, or it is no such file.
    """
    try:
        with open_regular(path) as file:
            found = os.fstat(file.fileno())
            content = file.read(_SECRET_BYTES + 1)
    except OSError as error:
        raise AccessError(
            f"{path} cannot be read: {error.strerror or error}.",
            hint="Write a file with the secret there, which nobody else may read (chmod 600).",
        ) from error
    if found.st_uid != os.geteuid():
        raise AccessError(
            f"Refused to use {path}: it belongs to {_user_name(found.st_uid)}.",
            hint="Copy it to a file of your own.",
        )
    if found.st_mode & 0o077:
        raise AccessError(
            f"Refused to use {path}: others may read or change it (mode"
            f" {stat.S_IMODE(found.st_mode):04o}).",
            hint=f"Run: chmod 600 {shlex.quote(str(path))}",
        )
    try:
        text = content.decode()
    except UnicodeDecodeError:
        text = ""
    if not text.strip() or len(content) > _SECRET_BYTES:
        raise AccessError(
            f"Refused to use {path}: it is empty, longer than {_SECRET_BYTES // 1024} KiB, or no"
            " text.",
            hint="Write the secret, and nothing else, to it.",
        )
    return text


def write_shared(path: Path, content: str | bytes) -> None:
    """Put a file with ``content`` that others may read, as the umask has it, at ``path`` in one
    step; a regular file that was there is replaced.

    Raises:
        OSError: it cannot be written, or a link or a device is there.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OSError(errno.EINVAL, "there is a link or no regular file in its place", str(path))
    _replace(path, content, 0o666)


def _replace(path: Path, content: str | bytes, mode: int) -> None:
    partial = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def open_regular(path: Path, flags: int = os.O_RDONLY) -> BinaryIO:
    """Open a regular file. A pipe that nobody writes to is not waited for, and a device that never
    ends is not read.

    Args:
        path: the file.
        flags: as those of :func:`os.open`; O_RDWR opens it for writing, too.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(descriptor, "r+b" if flags & os.O_RDWR else "rb")


def open_lock(path: Path) -> BinaryIO:
    """Open the file at ``path`` to lock it; made if it is not there, and left as it is if it is.

    Raises:
        AccessError: a link is there, or something else that is no regular file.
        OSError: it cannot be opened.
    """
    try:
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.EINVAL, errno.EISDIR, errno.ENXIO):
            raise
        raise AccessError(
            f"Refused to lock {path}: it is a link, or not a regular file.", hint="Remove it."
        ) from error


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for a program that we start: none of them needs the Hub's token, and its Pythons
    find no module in the current directory (PYTHONSAFEPATH)."""
    kept = {name: text for name, text in environ.items() if name not in _HUB_TOKENS}
    return {**kept, "PYTHONSAFEPATH": "1"}


def _trusted_users(environ: Mapping[str, str]) -> frozenset[int]:
    """This user, root, and one whom the user names; none that stands for several users."""
    named = environ.get(TRUSTED_UID_VARIABLE, "")
    if named and not named.isdecimal():
        raise AccessError(
            f"{TRUSTED_UID_VARIABLE} is {named!r}, which is no user id.",
            hint=f"Write a number, such as {TRUSTED_UID_VARIABLE}=1001, or unset it.",
        )
    uids = {0, os.geteuid(), *([int(named)] if named else [])}
    return frozenset(uid for uid in uids if not stands_for_many(uid))


def _another_users(place: Path, uid: int) -> AccessError:
    if stands_for_many(uid):
        whose, unless = "somebody whom this user namespace does not map", ""
    else:
        whose = _user_name(uid)
        unless = f", or, if that user is you, too, set {TRUSTED_UID_VARIABLE}={uid}"
    return AccessError(
        f"Refused to use {place}: it belongs to {whose}.",
        hint=f"Work in a directory of your own{unless}.",
    )


def _other_writers(place: Path, found: os.stat_result, trusted: frozenset[int]) -> str:
    """Who else may write to ``place``, as chmod(1) has it: ``g``, ``o``, ``go`` or nobody."""
    group = found.st_mode & stat.S_IWGRP and (
        not _is_own_group(found.st_gid, trusted) or _has_list(place)
    )
    return ("g" if group else "") + ("o" if found.st_mode & stat.S_IWOTH else "")


def _has_list(place: Path) -> bool:
    """Whether an access control list says who may write (acl(5)): the mode shows its mask only."""
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except (OSError, AttributeError):
        return False  # a system, or a file system, without lists


@cache
def _is_own_group(gid: int, trusted: frozenset[int]) -> bool:
    """Whether everybody in the group is trusted; False if that cannot be determined."""
    import grp
    import pwd

    try:
        members = {pwd.getpwnam(member).pw_uid for member in grp.getgrgid(gid).gr_mem}
    except KeyError:
        return False
    return members | {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid} <= trusted


def _user_name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


@contextmanager
def creation_lock(place: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock beside ``place``, so that concurrent runs make it only once.

    Args:
        place: what is made.
        waits: called before it waits for another run; may raise, and does not wait then.
    """
    own_directory(place.parent)
    with open_lock(lock_of(place)) as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def lock_of(place: Path) -> Path:
    """The file that is locked while ``place`` is made."""
    return place.with_name(f"{place.name}.lock")
