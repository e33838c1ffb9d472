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
import shlex
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pulumi_plugin.user_namespace import overflow_uid
from tpuflex.errors import AccessError
from tpuflex.trusted_users import (
    TRUSTED_UID_VARIABLE,
    group_name,
    is_own_group,
    trusted_users,
    user_name,
)

_FOR_OTHERS_TO_WRITE = stat.S_IWGRP | stat.S_IWOTH

_HUB_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")

#: As many symbolic links as Linux follows (path_resolution(7)).
_MOST_LINKS = 40


@dataclass(frozen=True, slots=True)
class Distrust:
    """Why a place is not this user's alone.

    Attributes:
        place: the file or directory in question, perhaps one above the place that was asked about.
        reason: who may do what there.
        remedy: what to do about it.
        writers: who else may write there, as chmod(1) has it: ``g``, ``o``, ``go`` or nobody.
    """

    place: Path
    reason: str
    remedy: str
    writers: str = ""

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


def require_all_trusted(found: Iterable[Distrust], trees: Sequence[Path]) -> None:
    """Refuse to go on if there is any reason, with all of them and one command that mends them.

    Args:
        found: the reasons.
        trees: directories that are ours to the bottom: they are mended as a whole.

    Raises:
        AccessError: there is a reason.
    """
    reasons = list({reason.place: reason for reason in found}.values())
    if not reasons:
        return
    first, *others = reasons
    also = f" So can {len(others)} more, {others[0].place} for one." if others else ""
    raise AccessError(
        f"Refused to run anything from {trees[0]}: {first}.{also}", hint=_remedy(reasons, trees)
    )


def _remedy(reasons: Sequence[Distrust], trees: Sequence[Path]) -> str:
    for reason in reasons:
        if not reason.writers:
            return reason.remedy  # another's, or not there: no mode mends that
    inside: list[Path] = []
    for tree in trees:  # what lies in an earlier one is mended with it
        if any(tree.is_relative_to(other) for other in inside):
            continue
        if any(reason.place.is_relative_to(tree) for reason in reasons):
            inside.append(tree)
    outside = [r for r in reasons if not any(r.place.is_relative_to(tree) for tree in inside)]
    commands = [f"chmod {r.writers}-w {shlex.quote(str(r.place))}" for r in outside]
    if inside:
        writers = "".join(who for who in "go" if any(who in r.writers for r in reasons))
        commands.append(f"chmod -R {writers}-w {shlex.join(map(str, inside))}")
    return f"Run: {' && '.join(commands)}"


def own_directory(path: Path) -> None:
    """Make ``path`` and what is missing above it, for this user only, whatever the umask."""
    for directory in (*reversed(path.parents), path):
        try:
            directory.mkdir(mode=0o700)
        except FileExistsError:
            continue
        except OSError:
            if not directory.is_dir():  # one that is there may lie where nothing can be made
                raise


def write_private(path: Path, text: str) -> None:
    """Put a file with ``text``, mode 0600, at ``path`` in one step; what was there is replaced."""
    descriptor, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        Path(partial).replace(path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` for a program that we start: it finds no program, and its Pythons find no module
    (PYTHONSAFEPATH), that others could have put there. None of them needs the Hub's token."""
    kept = {name: text for name, text in environ.items() if name not in _HUB_TOKENS}
    return {**kept, "PATH": trusted_path(environ)[0], "PYTHONSAFEPATH": "1"}


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
    trusted = trusted_users(environ)
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


def distrust_within(
    tree: Path, environ: Mapping[str, str], *, recursive: bool = True
) -> Iterator[Distrust]:
    """Why others could change what lies in ``tree``, its entries one by one.

    Links are judged as such, not followed. A directory that is missing has no entries.
    """
    trusted = trusted_users(environ)
    pending = [os.fspath(tree)]
    while pending:
        try:
            entries = list(os.scandir(pending.pop()))
        except OSError:
            continue
        for entry in entries:
            found = entry.stat(follow_symlinks=False)
            if found.st_mode & _FOR_OTHERS_TO_WRITE or found.st_uid not in trusted:
                problem = _problem(Path(entry.path), found, trusted, passed=False)
                if problem is not None:
                    yield problem
            if recursive and stat.S_ISDIR(found.st_mode):
                pending.append(entry.path)


def _problem(
    place: Path, found: os.stat_result, trusted: frozenset[int], *, passed: bool
) -> Distrust | None:
    if found.st_uid not in trusted:
        return Distrust(place, f"belongs to {user_name(found.st_uid)}", _other_owner(found.st_uid))
    if stat.S_ISLNK(found.st_mode):
        return None  # a link's mode means nothing
    if passed and stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX:
        return None
    others = bool(found.st_mode & stat.S_IWOTH)
    group = bool(found.st_mode & stat.S_IWGRP) and (
        not is_own_group(found.st_gid, trusted) or _has_list(place)
    )
    if not (others or group):
        return None
    writers = ("g" if group else "") + ("o" if others else "")
    who = "every user" if others else f"the group {group_name(found.st_gid)}"
    remedy = f"Run: chmod {writers}-w {shlex.quote(str(place))}"
    return Distrust(place, f"can be written to by {who}", remedy, writers)


def _other_owner(uid: int) -> str:
    if uid == overflow_uid():
        return (
            "This may be anybody whom this user namespace does not map. Work in a directory of your"
            " own; for a machine that others use, see P3 in docs/security.md."
        )
    return (
        f"If that is you, too, set {TRUSTED_UID_VARIABLE}={uid}; otherwise work in a directory of"
        " your own."
    )


def _missing(entry: Path) -> Distrust | None:
    """What is not there yet is ours to make, unless its directory is everybody's."""
    if entry.parent.stat().st_mode & (stat.S_IWOTH | stat.S_IWGRP) and _is_sticky(entry.parent):
        return Distrust(
            entry,
            "is not there, and others may make it",
            f"Run: mkdir -m 700 {shlex.quote(str(entry))}",
        )
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
        if not _is_link(entry):
            current = entry
            continue
        links += 1
        if links > _MOST_LINKS:
            return
        target = entry.readlink()
        rest += target.parts[:0:-1] if target.is_absolute() else target.parts[::-1]
        current = Path(target.anchor) if target.is_absolute() else current


def _is_link(entry: Path) -> bool:
    try:
        return entry.is_symlink()
    except PermissionError:
        return False  # its lstat() will say so
