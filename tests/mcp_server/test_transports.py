"""The server as a client starts it: on standard streams, and over HTTP on loopback."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest
import uvicorn
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from starlette.responses import PlainTextResponse

from tests.cli.typing import Captured
from tests.mcp_server.serving import run
from tpuflex.cli import main
from tpuflex.cli.invocation import Invocation
from tpuflex.errors import TpuflexError
from tpuflex.mcp_server import http

TPUFLEX = ("-P", "-m", "tpuflex")
ENVIRON = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


def test_standard_output_is_the_protocols(project: Path) -> None:
    """A client that starts the command gets its tools; nothing that works meanwhile is written
    between, and without a project the command says so on standard error."""

    async def asked() -> list[object]:
        words = [*TPUFLEX, "-C", str(project), "mcp"]
        parameters = StdioServerParameters(command=sys.executable, args=words, env=ENVIRON)
        async with Client(stdio_client(parameters)) as client:
            names = [tool.name for tool in (await client.list_tools()).tools]
            answers = [
                (await client.call_tool(name, {})).structured_content
                for name in ("get_help", "memory_layout", "status")
            ]
            return [names, *answers]

    names, help_, memory, status = run(asked())
    assert "status" in names  # type: ignore[operator]
    assert "up" not in names  # type: ignore[operator]
    assert help_["stacks"] == ["dev"]  # type: ignore[index]
    assert memory["fits"] is True  # type: ignore[index]
    assert status["error"]["kind"] == "EmulatorError"  # type: ignore[index]


def test_ctrl_c_ends_it(project: Path) -> None:
    """At once, while it waits for what the client says next."""
    words = [sys.executable, *TPUFLEX, "-C", str(project), "mcp"]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=ENVIRON, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{json.dumps(PING)}\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == PING["id"]
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == -signal.SIGINT
        finally:
            process.kill()


@dataclass(frozen=True)
class Listening:
    """A server that listens: where, and its file of the token."""

    url: str
    file: Path

    def post(self, **headers: str) -> httpx2.Response:
        shown = {"Accept": "application/json, text/event-stream", **headers}
        return httpx2.post(self.url, json=PING, headers=shown)


@contextmanager
def listening(project: Path) -> Iterator[Listening]:
    words = [sys.executable, *TPUFLEX, "-C", str(project), "mcp", "--http", "0"]
    with subprocess.Popen(words, env=ENVIRON, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = process.stderr.readline() + process.stderr.readline()
        try:
            found = re.fullmatch(r"Listening at (\S+)\nToken: (.+)\n", said)
            assert found is not None, said
            yield Listening(found[1], Path(found[2]))
        finally:
            process.terminate()


def test_http_lets_in_who_has_the_token(project: Path) -> None:
    """On loopback alone, with the token of a file that only this user can read; another `Host` or
    `Origin` is refused with it, too; the file goes with the server."""
    with listening(project) as server:
        token = server.file.read_text()
        assert stat.S_IMODE(server.file.stat().st_mode) == 0o600
        assert server.url.startswith("http://127.0.0.1:")
        bearer = f"Bearer {token}"

        async def asked() -> object:
            async with (
                httpx2.AsyncClient(headers={"Authorization": bearer}) as client,
                Client(streamable_http_client(server.url, http_client=client)) as mcp,
            ):
                return (await mcp.call_tool("get_help", {})).structured_content

        assert run(asked())["stacks"] == ["dev"]  # type: ignore[index]
        assert server.post().status_code == 401
        assert server.post(Authorization="Bearer wrong").status_code == 401
        assert server.post(Authorization=bearer, Host="evil.example:80").status_code == 421
        assert server.post(Authorization=bearer, Origin="http://evil.example").status_code == 403
        assert token not in server.post().text
    assert not server.file.exists()


async def test_another_users_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is, before it has asked anything; this user's stays. The port is this server's alone."""
    own = [False, True]
    monkeypatch.setattr(http, "is_own_connection", lambda _: own.pop(0))
    app = http.TokenRequired(PlainTextResponse("in"), "token")
    with http.listening(0) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(TpuflexError, match=f"Port {port} of"), http.listening(port):
            pass
        server = uvicorn.Server(http.configured(app))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        stranger, closed = await asyncio.open_connection(http.LOOPBACK, port)
        assert await stranger.read() == b""
        closed.close()
        with suppress(ConnectionError):
            await closed.wait_closed()
        reader, writer = await asyncio.open_connection(http.LOOPBACK, port)
        writer.write(
            b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            b"Authorization: Bearer token\r\n\r\n"
        )
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        server.should_exit = True
        await serving

    assert answer.startswith(b"HTTP/1.1 200")


def test_what_cannot_be_served(tmp_path: Path, capsys: Captured) -> None:
    """It is said on standard error, and nothing is written to standard output."""
    code = main.run(["-C", str(tmp_path), "mcp"], Invocation(environ={}))
    shown = capsys.readouterr()

    assert code == 4
    assert "There is no Pulumi.yaml" in shown.err
    assert shown.out == ""


def test_without_the_extra(
    project: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the SDK it is said how to get it."""
    for name in [*sys.modules]:
        if name.partition(".")[0] == "mcp" or name.startswith("tpuflex.mcp_server"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    code = main.run(["-C", str(project), "mcp"], Invocation(environ={"HOME": str(project)}))

    assert code == 1
    assert "pip install 'tpuflex[mcp]'" in capsys.readouterr().err
