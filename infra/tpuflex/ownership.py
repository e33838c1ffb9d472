"""Whether others could put a program of theirs where one of ours is run from.

A command run anywhere below a project runs what lies in it: its engine, its plugins, its virtual
environment. If another user owns one of the directories on the way there, or may write to it, that
user decides what is run, as with `git` before ``safe.directory``
(https://git-scm.com/docs/git-config#Documentation/git-config.txt-safedirectory).

This user and root may own; nobody else may write. A directory that its group may write to passes if
nobody but this user and root is in that group: with umask 002 every user has such a group (Debian's
OpenSSH decides alike, "user-group-modes" in its patches). A sticky directory such as /tmp may be on
the way, since others cannot replace what is not theirs there, but is no place to run from.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tpuflex.errors import AccessError

#: The uid of a user whose files are trusted as one's own, for containers and mounts where a
#: project has another owner than the user who runs its commands.
TRUSTED_UID_VARIABLE = "TPUFLEX_TRUSTED_UID"

#: As many symbolic links as Linux follows (path_resolution(7)).
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why a place is not this user's alone.

    Attributes:
        place: the file or directory in question, perhaps one above the place that was asked about.
        reason: who may do what there.
        remedy: what to do about it.
    """

    place: Path
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.place} {self.reason}"


def require_trusted(path: Path, what: str, environ: Mapping[str, str]) -> None:
    """Refuse to use ``path`` if others could change what is in it; it may be missing.

    Args:
        path: a file or directory that programs are run from.
        what: what it is, such as ``the project``.
        environ: may name a user to trust (:data:`TRUSTED_UID_VARIABLE`).

    Raises:
        AccessError: they could; says where, and what to do.
    """
    found = distrust(path, environ)
    if found is not None:
        raise AccessError(
            f"Refused to run anything from {what} {path}: {found}.", hint=found.remedy
        )


def trusted_path(environ: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """``PATH`` without the directories that others could put a program into.

    Returns:
        The rest, and why each of the others was left out.
    """
    kept, left_out = [], []
    for entry in environ.get("PATH", "").split(os.pathsep):
        found = distrust(Path(entry), environ) if Path(entry).is_absolute() else "is not absolute"
        if found is None:
            kept.append(entry)
        elif entry:
            left_out.append(f"{entry}: {found}")
    return os.pathsep.join(kept), tuple(left_out)


def distrust(path: Path, environ: Mapping[str, str]) -> Distrust | None:
    """Why others could change what is at ``path``; None if only this user and root can."""
    trusted = _trusted_users(environ)
    entries = list(_way_to(path))
    for number, entry in enumerate(entries):
        try:
            found = entry.lstat()
        except FileNotFoundError:
            return _missing(entry)
        except OSError as error:
            return Distrust(entry, f"cannot be looked at ({error.strerror})", "")
        passed = number < len(entries) - 1
        if (problem := _problem(entry, found, trusted, passed=passed)) is not None:
            return problem
    return None


def _problem(
    place: Path, found: os.stat_result, trusted: frozenset[int], *, passed: bool
) -> Distrust | None:
    if found.st_uid not in trusted:
        return Distrust(
            place,
            f"belongs to {_user_name(found.st_uid)}",
            f"If that is you, too, set {TRUSTED_UID_VARIABLE}={found.st_uid}; otherwise work in a"
            " directory of your own.",
        )
    if stat.S_ISLNK(found.st_mode):
        return None  # a link's mode means nothing
    if passed and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return None
    if found.st_mode & stat.S_IWOTH:
        return Distrust(place, "can be written to by every user", f"Run: chmod o-w {place}")
    if found.st_mode & stat.S_IWGRP and (
        _has_list(place) or not _is_own_group(found.st_gid, trusted)
    ):
        group = _group_name(found.st_gid)
        return Distrust(place, f"can be written to by the group {group}", f"Run: chmod g-w {place}")
    return None


def _missing(entry: Path) -> Distrust | None:
    """What is not there yet is ours to make, unless its directory is everybody's."""
    if entry.parent.stat().st_mode & (stat.S_IWOTH | stat.S_IWGRP) and _is_sticky(entry.parent):
        return Distrust(entry, "is not there, and others may make it", f"Run: mkdir -m 700 {entry}")
    return None


def _is_sticky(directory: Path) -> bool:
    return bool(directory.stat().st_mode & stat.S_ISVTX)


def _has_list(place: Path) -> bool:
    """Whether an access control list says who may write (acl(5)): the mode shows its mask only."""
    try:
        return "system.posix_acl_access" in os.listxattr(place)
    except (OSError, AttributeError):
        return False  # a system, or a file system, without lists


def _way_to(path: Path) -> Iterator[Path]:
    """Every directory, link and file that the kernel goes through on the way to ``path``."""
    absolute = path.absolute()
    current, rest, links = Path(absolute.anchor), list(absolute.parts[:0:-1]), 0
    yield current
    while rest:
        part = rest.pop()
        if part == "..":
            current = current.parent
            continue
        entry = current / part
        yield entry
        if not entry.is_symlink():
            current = entry
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        target = entry.readlink()
        rest += target.parts[:0:-1] if target.is_absolute() else target.parts[::-1]
        current = Path(target.anchor) if target.is_absolute() else current


def _trusted_users(environ: Mapping[str, str]) -> frozenset[int]:
    named = environ.get(TRUSTED_UID_VARIABLE, "")
    if named and not named.isdecimal():
        raise AccessError(
            f"{TRUSTED_UID_VARIABLE} is {named!r}, which is no user id.",
            hint=f"Write a number, such as {TRUSTED_UID_VARIABLE}=1001, or unset it.",
        )
    return frozenset({0, os.geteuid(), *([int(named)] if named else [])})


def _is_own_group(gid: int, trusted: frozenset[int]) -> bool:
    """Whether everybody in the group is trusted; False if that cannot be told."""
    import grp
    import pwd

    try:
        members = grp.getgrgid(gid).gr_mem
        uids = {pwd.getpwnam(member).pw_uid for member in members}
    except KeyError:
        return False
    primary = {user.pw_uid for user in pwd.getpwall() if user.pw_gid == gid}
    return (uids | primary) <= trusted


def _user_name(uid: int) -> str:
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def _group_name(gid: int) -> str:
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
