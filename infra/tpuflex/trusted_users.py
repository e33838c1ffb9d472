"""Which users of this machine may own what is run: this one, root, and one whom the user names."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache

from pulumi_plugin.user_namespace import overflow_uid, stands_for_many
from tpuflex.errors import AccessError

#: The uid of a user whose files are trusted as one's own, for containers and mounts where a
#: project has another owner than the user who runs its commands.
TRUSTED_UID_VARIABLE = "TPUFLEX_TRUSTED_UID"


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
    known = [] if stands_for_many(own) else [own]
    return frozenset({0, *known, *([int(named)] if named else [])})


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
