"""Which users of this machine may own what is run: this one, root, and one whom the user names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tpuflex.errors import AccessError

#: The uid of a user whose files are trusted as one's own, for containers and mounts where a
#: project has another owner than the user who runs its commands.
TRUSTED_UID_VARIABLE = "TPUFLEX_TRUSTED_UID"

#: What a user namespace shows for every user whom it does not map (user_namespaces(7)).
_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")
_UID_MAP = Path("/proc/self/uid_map")
_ALL_UIDS = 2**32 - 1


def trusted_users(environ: Mapping[str, str]) -> frozenset[int]:
    """The uids of these users.

    Raises:
        AccessError: :data:`TRUSTED_UID_VARIABLE` names nobody in particular.
    """
    named = environ.get(TRUSTED_UID_VARIABLE, "")
    if named and not named.isdecimal():
        raise AccessError(
            f"{TRUSTED_UID_VARIABLE} is {named!r}, which is no user id.",
            hint=f"Write a number, such as {TRUSTED_UID_VARIABLE}=1001, or unset it.",
        )
    if named and int(named) == overflow_uid():
        raise AccessError(
            f"{TRUSTED_UID_VARIABLE} is {named}, which stands for every user whom a user namespace"
            " does not map.",
            hint="Unset it, and work in a directory of your own.",
        )
    own = os.geteuid()
    known = own != overflow_uid() or _maps_everybody()
    return frozenset({0, *([own] if known else []), *([int(named)] if named else [])})


@cache
def overflow_uid() -> int:
    """The uid that a user namespace shows for every user whom it does not map."""
    try:
        return int(_OVERFLOW_UID.read_text("ascii"))
    except (OSError, ValueError):
        return 65_534  # the kernel's default; other systems have no user namespaces


def _maps_everybody() -> bool:
    """Whether this is the machine's own user namespace, where the overflow uid is a user's."""
    try:
        lines = _UID_MAP.read_text("ascii").splitlines()
    except OSError:
        return True
    return [line.split() for line in lines] == [["0", "0", str(_ALL_UIDS)]]


@cache
def is_own_group(gid: int, trusted: frozenset[int]) -> bool:
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


def user_name(uid: int) -> str:
    """The user's name with its uid, as far as it has one."""
    import pwd

    try:
        return f"{pwd.getpwuid(uid).pw_name} (uid {uid})"
    except KeyError:
        return f"uid {uid}"


def group_name(gid: int) -> str:
    """The group's name, or its number."""
    import grp

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
