"""``python shim.py OPTIONS COMMAND…``: the first process of a container with a network of its own.

It enters a new network namespace (network_namespaces(7)), in which there is a loopback device and
nothing else: no route leads to another machine, to the host, or to its metadata server. It inherits
the listener of each published port, opened on the host; what arrives there is passed on to the
container's port inside, as docker's userland proxy does. With ``--entered`` it is in the network of
another container already.

A user who is not root enters a user namespace too, which some systems forbid. What the container
sees of files is decided before (:mod:`embedded_cloud.machines.namespace`).

Run by path, without importing the package, so that a container starts quickly. Without a command
it only tries whether it could, and loads no asyncio, which takes as long as the rest or longer.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_NO_NEW_PRIVS, _PR_CAPBSET_DROP = 38, 24
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1
#: Of capability.h; the kernel refuses the numbers that it does not have.
_CAPABILITIES = range(64)
_CAP_SYS_RESOURCE = 24
_CHUNK = 64 * 1024
_CANNOT_START = 125

_libc = ctypes.CDLL(None, use_errno=True)


def enter_network() -> None:
    """Leave the machine's network for an empty one.

    Raises:
        OSError: the system does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    flags = _CLONE_NEWNET if uid == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
    if _libc.unshare(flags) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    if uid != 0:
        for name, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            Path("/proc/self", name).write_text(line, encoding="ascii")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as query:
        device = struct.pack("16sH14x", b"lo", 0)
        (state,) = struct.unpack("16xH14x", fcntl.ioctl(query, _SIOCGIFFLAGS, device))
        fcntl.ioctl(query, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", state | _IFF_UP))


def drop_rights() -> None:
    """What ``--cap-drop ALL --cap-add SYS_RESOURCE`` and ``no-new-privileges`` do."""
    for capability in _CAPABILITIES:
        if capability != _CAP_SYS_RESOURCE:
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def open_door(published: str) -> tuple[socket.socket, int]:
    """The listener for ``ADDRESS:PORT:PORT-INSIDE``, and the port inside.

    Raises:
        OSError: another process listens there.
    """
    address, outside, inside = published.split(":")
    listener = socket.create_server((address, int(outside)))
    # What it accepts inherits that. asyncio sees to it only where a socket names its protocol, as
    # this one does not; without it many a small answer waits 40 ms for an acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener, int(inside)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await source.read(_CHUNK):
            sink.write(data)
            await sink.drain()
        sink.write_eof()


async def _serve(listener: socket.socket, port: int) -> asyncio.Server:
    import asyncio

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner: asyncio.StreamWriter | None = None
        with contextlib.suppress(OSError):
            answers, inner = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_pump(reader, inner), _pump(answers, writer))
        for end in (inner, writer):
            if end is not None:
                end.close()

    return await asyncio.start_server(accept, sock=listener)


async def run(command: Sequence[str], doors: Sequence[tuple[socket.socket, int]]) -> int:
    """Run ``command`` to its end while ``doors`` lead to it; its exit code, as docker's."""
    import asyncio

    child = await asyncio.create_subprocess_exec(*command, preexec_fn=drop_rights)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, child.terminate)
    servers = [await _serve(listener, port) for listener, port in doors]
    code = await child.wait()
    for server in servers:
        server.close()
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Run a command in a network of its own; 125 where that cannot be done."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--door", action="append", default=[], metavar="DESCRIPTOR:PORT-INSIDE")
    parser.add_argument("--entered", action="store_true")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    given = [map(int, door.split(":")) for door in options.door]
    doors = [(socket.socket(fileno=descriptor), inside) for descriptor, inside in given]
    try:
        if not options.entered:
            enter_network()
    except OSError as error:
        sys.stderr.write(f"no network namespace: {error.strerror}\n")
        return _CANNOT_START
    if not options.command:
        return 0
    import asyncio

    try:
        return asyncio.run(run(options.command, doors))
    except OSError as error:
        sys.stderr.write(f"exec {options.command[0]}: {error.strerror}\n")
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
