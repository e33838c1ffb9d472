"""HTTP over raw sockets: what is written is what is sent."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Seconds after which a server that says nothing has given no answer (CONNECT, for one).
SILENCE = 20.0


@dataclass(frozen=True)
class Answer:
    """The first answer on a connection.

    Attributes:
        status: None when the server closed the connection without an answer.
        head: status line and headers.
        body: what followed, as far as its length says or until the server was silent.
    """

    status: int | None
    head: bytes
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        assert self.status == 200, self
        return json.loads(self.body)


def ask(
    port: int,
    method: str,
    target: str,
    key: str | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    version: str = "HTTP/1.1",
) -> Answer:
    """Send one request to 127.0.0.1 and read its answer."""
    lines = [f"{method} {target} {version}" if version else f"{method} {target}"]
    given = {"Host": "h", **(headers or {})}
    if key is not None:
        given["Authorization"] = f"Bearer {key}"
    if body:
        given["Content-Length"] = str(len(body))
    lines += [f"{name}: {value}" for name, value in given.items()]
    request = "\r\n".join([*lines, "", ""]).encode("utf-8") + body
    with socket.create_connection(("127.0.0.1", port), timeout=SILENCE) as connection:
        connection.sendall(request)
        return _read(connection, method)


def post(port: int, target: str, document: Mapping[str, Any], key: str | None = None) -> Answer:
    """Post ``document`` as JSON."""
    headers = {"Content-Type": "application/json", "Connection": "close"}
    body = json.dumps(document).encode()
    return ask(port, "POST", target, key, headers=headers, body=body)


def websocket(port: int, target: str, key: str | None = None) -> Answer:
    """Ask for an upgrade to a WebSocket."""
    headers = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dHB1ZmxleC10cHVmbGV4IQ==",
    }
    return ask(port, "GET", target, key, headers=headers)


def _read(connection: socket.socket, method: str) -> Answer:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = _receive(connection)
        if not piece:
            break
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    words = head.split(b" ", 2)
    if not head.startswith(b"HTTP/") or len(words) < 2:
        return Answer(None, head, data)
    length = _content_length(head)
    if method == "HEAD":
        length = 0
    while length is None or len(body) < length:
        piece = _receive(connection)
        if not piece:
            break
        body += piece
    return Answer(int(words[1]), head, body if length is None else body[:length])


def _receive(connection: socket.socket) -> bytes:
    try:
        return connection.recv(65536)
    except (ConnectionResetError, TimeoutError):
        return b""


def _content_length(head: bytes) -> int | None:
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length":
            return int(value)
    return None
