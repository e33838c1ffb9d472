"""Which user of this machine is calling, for endpoints that ask for no credential.

A metadata server gives a token to every caller, as Google's does, and the control API needs
none. On a real network only the host reaches its metadata server; on loopback every user of the
machine does. Linux tells which user owns the other end of a connection.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

from aiohttp import web

_TABLE = Path("/proc/net/tcp")
#: Columns of /proc/net/tcp (proc_pid_net(5)).
_LOCAL, _REMOTE, _UID = 1, 2, 7


def is_other_user(request: web.Request) -> bool:
    """Whether the request is known to come from another user of this machine, root excepted.

    False where the system does not tell (not Linux, or the connection is closed).
    """
    return _caller(request) not in (None, 0, os.getuid())


def is_own_user(request: web.Request) -> bool:
    """Whether the request is known to come from the user who runs the embedded cloud."""
    return _caller(request) == os.getuid()


def _caller(request: web.Request) -> int | None:
    """The user id behind the connection, None where the system does not tell."""
    transport = request.transport
    if transport is None or not _TABLE.exists():
        return None
    ours, theirs = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
    if ours is None or theirs is None:
        return None
    with _TABLE.open(encoding="ascii") as table:
        return owner(table, local=theirs[:2], remote=ours[:2])


def owner(table: Iterable[str], *, local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The user id of the socket from ``local`` to ``remote`` in ``/proc/net/tcp``'s lines."""
    connection = [_entry(*local), _entry(*remote)]
    for line in table:
        columns = line.split()
        if columns[_LOCAL : _REMOTE + 1] == connection:
            return int(columns[_UID])
    return None


def _entry(address: str, port: int) -> str:
    """``127.0.0.1``, 8470 as the kernel prints it: ``0100007F:2116`` on this byte order."""
    (number,) = struct.unpack(
        f"{'<' if sys.byteorder == 'little' else '>'}I", socket.inet_aton(address)
    )
    return f"{number:08X}:{port:04X}"
