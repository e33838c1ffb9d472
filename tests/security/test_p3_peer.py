"""P3: whose process is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pulumi_plugin import peer
from pulumi_plugin.door import caller
from tests.security.strangers import STRANGER, needs_second_uid, start_as_stranger

pytestmark = pytest.mark.skipif(not peer.is_told(), reason="this system has no /proc/net/tcp")

_V4, _V6 = "127.0.0.1", "::ffff:127.0.0.1"
_WAYS = [
    (socket.AF_INET, _V4, socket.AF_INET, _V4),
    (socket.AF_INET, _V4, socket.AF_INET6, _V6),
    (socket.AF_INET6, _V6, socket.AF_INET, _V4),
    (socket.AF_INET6, _V6, socket.AF_INET6, _V6),
]


def _tables() -> list[str]:
    lines: list[str] = []
    for name in ("tcp", "tcp6"):
        lines += Path("/proc/net", name).read_text("ascii").splitlines()
    return lines


@contextmanager
def _listener(family: socket.AddressFamily, address: str) -> Iterator[socket.socket]:
    with socket.socket(family) as listener:
        listener.bind((address, 0))
        listener.listen()
        yield listener


@pytest.mark.parametrize(("family", "address", "client_family", "client_address"), _WAYS)
def test_both_ways_of_asking_know_both_ends(
    family: socket.AddressFamily,
    address: str,
    client_family: socket.AddressFamily,
    client_address: str,
) -> None:
    """S3: IPv4, and IPv4 mapped to IPv6 on either side: the socket is found, and it is ours."""
    with _listener(family, address) as listener, socket.socket(client_family) as client:
        client.connect((client_address, listener.getsockname()[1]))
        accepted, _ = listener.accept()
        with accepted:
            assert peer.is_own_connection(accepted)
            assert peer.is_own_connection(client)
            ends = [(_V4, sock.getsockname()[1]) for sock in (client, accepted)]
            assert peer.owner(*ends) == os.geteuid()
            assert peer.owner_in(_tables(), local=ends[0], remote=ends[1]) == os.geteuid()


@needs_second_uid
@pytest.mark.parametrize(("family", "address", "client_family", "client_address"), _WAYS)
@pytest.mark.parametrize("then", ["stays", "closes", "shuts down", "resets"])
def test_a_stranger_is_one_however_the_call_is_made(
    family: socket.AddressFamily,
    address: str,
    client_family: socket.AddressFamily,
    client_address: str,
    then: str,
) -> None:
    """S3: also one who sends a request and hangs up: Linux then says uid 0 of the connection."""
    program = f"""
import socket, struct, sys
client = socket.socket(socket.AddressFamily({int(client_family)}))
client.connect(({client_address!r}, int(sys.argv[1])))
client.sendall(b"GET / HTTP/1.1")
how = {then!r}
if how == "resets":
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
if how in ("closes", "resets"):
    client.close()
if how == "shuts down":
    client.shutdown(socket.SHUT_WR)
print("done", flush=True)
sys.stdin.read()
"""
    with _listener(family, address) as listener:
        port = listener.getsockname()[1]
        stranger = start_as_stranger(program, str(port))
        accepted, name = listener.accept()
        with accepted, stranger:
            assert stranger.stdout is not None
            stranger.stdout.readline()
            assert not peer.is_own_connection(accepted)
            ends = {"local": (_V4, name[1]), "remote": (_V4, port)}
            assert peer.owner_in(_tables(), **ends) in (None, STRANGER)
            assert peer.owner(*ends.values()) in (None, STRANGER)
            stranger.communicate()


def _row(**columns: str) -> str:
    row = {"state": "01", "uid": "4711", "inode": "99", **columns}
    line = "0: 0100007F:2116 0200007F:0050 {state} 0:0 0:0 0 {uid} 0 {inode} 1"
    return line.format(**row)


@pytest.mark.skipif(sys.byteorder != "little", reason="the rows are those of this byte order")
def test_what_counts_in_the_tables() -> None:
    """S3: an established connection with a process behind it; nothing else says anything."""
    ends: dict[str, tuple[str, int]] = {"local": (_V4, 8470), "remote": ("127.0.0.2", 80)}
    assert peer.owner_in([_row()], **ends) == 4711
    for state in range(2, 13):
        assert peer.owner_in([_row(state=f"{state:02X}", uid="0")], **ends) is None
    assert peer.owner_in([_row(uid="0", inode="0")], **ends) is None
    assert peer.owner_in([_row(), _row(uid="0")], **ends) is None
    assert peer.owner_in(["sl local_address", "", _row()[:30]], **ends) is None
    other: dict[str, tuple[str, int]] = {**ends, "remote": ("127.0.0.2", 81)}
    assert peer.owner_in([_row()], **other) is None
    mapped = (
        _row()
        .replace(" 0", " 0000000000000000FFFF00000", 1)
        .replace(" 0200007F", " 0000000000000000FFFF00000200007F")
    )
    assert peer.owner_in([mapped], **ends) == 4711


def test_the_next_connection_with_the_same_ends_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """S3: a caller hangs up and the owner's next connection gets the same port: the first call is
    still a stranger's."""
    with _listener(socket.AF_INET, _V4) as listener, socket.socket() as client:
        client.connect(listener.getsockname())
        accepted, _ = listener.accept()
        with accepted:
            client.close()
            assert accepted.recv(1) == b""
            monkeypatch.setattr(peer, "owner", lambda *_: os.geteuid())
            assert not peer.is_own_connection(accepted)


def test_where_the_system_does_not_tell_the_owner_must_say_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S3: no table, no trust; one variable opens it, on such a system only, and the refusal names
    it."""
    ends = (_V4, 1), (_V4, 2)
    monkeypatch.setenv(peer.TRUST_LOOPBACK, "1")
    assert not peer.is_own(*ends)
    monkeypatch.setattr(peer, "_TABLES", (Path("/nonexistent"),))
    assert peer.is_own(*ends)
    monkeypatch.delenv(peer.TRUST_LOOPBACK)
    assert not peer.is_own(*ends)
    assert peer.TRUST_LOOPBACK in peer.refusal()


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("ipv4:127.0.0.1:50000", (_V4, 50000)),
        ("ipv6:%5B::ffff:127.0.0.1%5D:50000", (_V4, 50000)),
        ("ipv6:[::FFFF:127.0.0.1]:50000", (_V4, 50000)),
        ("ipv6:%5B::1%5D:50000", None),
        ("unix:", None),
        ("", None),
        ("ipv4:127.0.0.1:", None),
    ],
)
def test_callers_as_grpc_names_them(name: str, end: peer.End | None) -> None:
    """What is not understood is nobody."""
    assert caller(name) == end
