"""Which user of this machine is at the other end of a TCP connection on loopback.

Every user of a machine reaches its loopback ports, so an endpoint that acts for its owner asks
the kernel whose process is calling. An answer counts only if it is about a connection that is
still established and whose socket still belongs to a process: of one that is being closed, or
waits in TIME_WAIT, Linux says uid 0, so anyone who sends a request and hangs up would pass for
root.

What the kernel does not say is a stranger. So is root, unless root is the owner: it can become
the owner anyway, while root in a container on the host's network, with few rights of its own, has
uid 0 here, too.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import struct
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol, TypeAlias

from pulumi_plugin.user_namespace import stands_for_many

#: Set to 1 on a machine that nobody else uses and whose system does not tell (see
#: :func:`is_told`): every process that reaches the port counts as the owner's.
TRUST_LOOPBACK = "TPUFLEX_TRUST_LOOPBACK"
#: What a refused caller is told.
REFUSAL = "Only the user who runs this may call it"

#: Address and port of one end.
End: TypeAlias = tuple[str, int]

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
#: Columns of the tables (proc_pid_net(5)).
_LOCAL, _REMOTE, _STATE, _UID, _INODE = 1, 2, 3, 7, 9
#: TCP_ESTABLISHED (Linux, include/net/tcp_states.h).
_ESTABLISHED = 1

#: sock_diag(7): a request for one socket, by its two ends.
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER = struct.Struct("=IHHII")
_REQUEST = struct.Struct("=BBBBI")
_ENDS = struct.Struct("!HH16s16s")
_ANY_INTERFACE_AND_COOKIE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)
#: Where idiag_uid and idiag_inode are in inet_diag_msg, and its state.
_STATE_AT, _OWNER_AT = _HEADER.size + 1, _HEADER.size + 4 + 48 + 12

#: Seconds between looks for a connection that the other side has not accepted yet.
_ACCEPT_PAUSE = 0.002


class ConnectedSocket(Protocol):
    """What is asked of a socket, and of asyncio's view of one."""

    def getsockname(self) -> End: ...

    def getpeername(self) -> End: ...

    def getsockopt(self, level: int, option: int, length: int) -> bytes: ...


def is_told() -> bool:
    """Whether this system tells whose a connection is (Linux does)."""
    return _TABLES[0].exists()


def refusal() -> str:
    """Why a caller who is not known to be the owner is refused, and what to do about it."""
    if is_told():
        return f"{REFUSAL}."
    return (
        f"{REFUSAL}, and this system does not tell who is calling. On a machine that nobody else"
        f" uses, set {TRUST_LOOPBACK}=1."
    )


def is_own(theirs: End, ours: End) -> bool:
    """Whether ``theirs`` is the end of a process of this process's user.

    Args:
        theirs: the other end of the connection.
        ours: this process's end.
    """
    if not is_told():
        return os.environ.get(TRUST_LOOPBACK) == "1"
    uid = owner(theirs, ours)
    return uid is not None and uid == os.geteuid() and not stands_for_many(uid)


def is_own_connection(connection: ConnectedSocket) -> bool:
    """Whether the other end of ``connection`` is a process of this process's user.

    The connection must still be established afterwards: otherwise the caller may have hung up
    and the owner's next connection have got the same port.
    """
    try:
        theirs, ours = connection.getpeername(), connection.getsockname()
        return is_own(_end(theirs), _end(ours)) and _is_established(connection)
    except (OSError, IndexError, ValueError):
        return False


def require_owner(connection: ConnectedSocket, *, within: float) -> None:
    """Wait until a process of this process's user has accepted ``connection``.

    For clients, before they send anything: a port may have passed to another user. Until it is
    accepted, a connection belongs to nobody.

    Args:
        connection: a connection that was just made.
        within: seconds that it may take.

    Raises:
        ConnectionRefusedError: another user's process listens there, or the system does not tell.
        ConnectionResetError: it was closed at once.
        TimeoutError: nobody accepted it.
    """
    deadline = time.monotonic() + within
    while not is_own_connection(connection):
        if not is_told():
            raise ConnectionRefusedError(refusal())
        if not _is_established(connection):
            raise ConnectionResetError("the connection was closed at once")
        theirs, ours = _end(connection.getpeername()), _end(connection.getsockname())
        if owner(theirs, ours) not in (None, os.geteuid()):
            raise ConnectionRefusedError(f"port {theirs[1]} is another user's")
        if time.monotonic() >= deadline:
            raise TimeoutError(f"nobody accepts connections on port {theirs[1]}")
        time.sleep(_ACCEPT_PAUSE)


def ends_here(connection: ConnectedSocket) -> bool:
    """Whether the other end of ``connection`` is on this machine, by whatever name it was called:
    on loopback, or at the address that this end has, too."""
    theirs, ours = _end(connection.getpeername()), _end(connection.getsockname())
    return ipaddress.ip_address(theirs[0]).is_loopback or theirs[0] == ours[0]


def listens(port: int, *, within: float) -> bool | None:
    """Whether a process of this process's user listens on a loopback port.

    Args:
        port: the port on 127.0.0.1.
        within: seconds that it may take to accept a connection; nothing is sent.

    Returns:
        False if another user's process does; None if nobody does, or nobody answers.
    """
    try:
        connection = socket.create_connection(("127.0.0.1", port), within)
    except OSError:
        return None
    with connection:
        try:
            require_owner(connection, within=within)
        except ConnectionRefusedError:
            return False
        except OSError:
            return None
    return True


def owner(local: End, remote: End) -> int | None:
    """The uid of the socket at ``local`` that is connected to ``remote``; None if unknown."""
    try:
        return _ask(local, remote)
    except OSError:
        # No netlink here, or no such socket: the tables have the last word.
        return _owner_in_tables(local, remote)


def owner_in(tables: Iterable[str], *, local: End, remote: End) -> int | None:
    """The same, from lines of ``/proc/net/tcp`` and ``/proc/net/tcp6``."""
    spellings = [[form(*local), form(*remote)] for form in (_entry, _entry6)]
    uids = set()
    for line in tables:
        columns = line.split()
        if len(columns) <= _INODE or columns[_LOCAL : _REMOTE + 1] not in spellings:
            continue
        if int(columns[_STATE], 16) == _ESTABLISHED and columns[_INODE] != "0":
            uids.add(int(columns[_UID]))
    return uids.pop() if len(uids) == 1 else None


def _owner_in_tables(local: End, remote: End) -> int | None:
    lines: list[str] = []
    for table in _TABLES:
        try:
            lines += table.read_text(encoding="ascii").splitlines()
        except OSError:
            continue  # no IPv6 in this kernel
    return owner_in(lines, local=local, remote=remote)


def _ask(local: End, remote: End) -> int | None:
    """One socket from the kernel: constant time and one moment, while the tables are read in
    pieces, and take milliseconds with some thousand connections.

    Raises:
        OSError: there is no such socket, or the kernel has no sock_diag for TCP.
    """
    v6 = ":" in local[0]
    family = socket.AF_INET6 if v6 else socket.AF_INET
    packed = [socket.inet_pton(family, end[0]).ljust(16, b"\0") for end in (local, remote)]
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 1 << _ESTABLISHED)
    body += _ENDS.pack(local[1], remote[1], *packed) + _ANY_INTERFACE_AND_COOKIE
    size = _HEADER.size + len(body)
    kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body)
        answer, (sender, _groups) = kernel.recvfrom(4096)
    if sender != 0 or _HEADER.unpack_from(answer)[1] != _SOCK_DIAG_BY_FAMILY:
        raise OSError("no such socket")
    uid, inode = struct.unpack_from("=II", answer, _OWNER_AT)
    return uid if answer[_STATE_AT] == _ESTABLISHED and inode else None


def _is_established(connection: ConnectedSocket) -> bool:
    if not is_told():
        return True
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


def _end(name: tuple[object, ...]) -> End:
    """A socket's name as address and port; an IPv4-mapped IPv6 address as IPv4."""
    address = ipaddress.ip_address(str(name[0]))
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address), int(str(name[1]))


def _entry(address: str, port: int) -> str:
    """``127.0.0.1``, 8470 as ``/proc/net/tcp`` has it: ``0100007F:2116`` on this byte order."""
    if ":" in address:
        return ""
    return f"{_words(socket.inet_aton(address))}:{port:04X}"


def _entry6(address: str, port: int) -> str:
    """The same as ``/proc/net/tcp6`` has it: four words, each in this machine's byte order."""
    mapped = address if ":" in address else f"::ffff:{address}"
    return f"{_words(socket.inet_pton(socket.AF_INET6, mapped))}:{port:04X}"


def _words(packed: bytes) -> str:
    order = "<" if sys.byteorder == "little" else ">"
    return "".join(f"{word:08X}" for word in struct.unpack(f"{order}{len(packed) // 4}I", packed))
