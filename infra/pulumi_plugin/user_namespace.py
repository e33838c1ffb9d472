"""The user namespace of this process, and the uid that it shows for users whom it does not map.

See user_namespaces(7), "Unmapped user and group IDs".
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

_OVERFLOW_UID = Path("/proc/sys/kernel/overflowuid")
_UID_MAP = Path("/proc/self/uid_map")
_ALL_UIDS = 2**32 - 1


@cache
def overflow_uid() -> int:
    """The uid that a user namespace shows for every user whom it does not map."""
    try:
        return int(_OVERFLOW_UID.read_text("ascii"))
    except (OSError, ValueError):
        return 65_534  # the kernel's default; other systems have no user namespaces


def stands_for_many(uid: int) -> bool:
    """Whether ``uid`` is what the kernel says of more than one user: the overflow uid, unless this
    is the machine's own user namespace, in which it is a user's."""
    return uid == overflow_uid() and not _maps_everybody()


def _maps_everybody() -> bool:
    try:
        lines = _UID_MAP.read_text("ascii").splitlines()
    except OSError:
        return True
    return [line.split() for line in lines] == [["0", "0", str(_ALL_UIDS)]]
