"""The server over streamable HTTP, on loopback, for clients that have the token of this run.

Every user of this machine can reach loopback, and so can a web page in this user's browser: the
token is in a file that only this user can read, connections of other users are closed at once, and
the SDK refuses a `Host` or `Origin` that is not loopback's, so that no name that a page's owner
points at loopback gets through.
"""

from __future__ import annotations

import asyncio
import hmac
import secrets
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import uvicorn
from starlette.responses import PlainTextResponse
from uvicorn.protocols.http.h11_impl import H11Protocol

from pulumi_plugin.peer import is_own_connection, is_told
from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import own_directory, write_private

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from tpuflex.mcp_server.server import ProjectServer

LOOPBACK = "127.0.0.1"


class TokenRequired:
    """Lets in only requests that carry the token."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) == 1 and hmac.compare_digest(given[0], self._expected):
            await self._app(scope, receive, send)
            return
        refusal = PlainTextResponse(
            "The token of this server is missing or wrong.\n",
            status_code=401,
            headers={"WWW-Authenticate": "Bearer"},
        )
        await refusal(scope, receive, send)


class OwnConnection(H11Protocol):
    """A connection that is closed at once if it is another user's, where the system can tell."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if is_told() and not is_own_connection(transport.get_extra_info("socket")):
            transport.abort()


@contextmanager
def listening(port: int) -> Iterator[socket.socket]:
    """A socket that listens on ``port`` of loopback; 0 is any free one. From then on nobody else
    can listen there.

    Raises:
        TpuflexError: the port cannot be used.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, port))
            listener.listen()
        except OSError as error:
            raise TpuflexError(
                f"Port {port} of {LOOPBACK} cannot be used: {error.strerror}.",
                hint="Name another one, or 0 for any free one.",
            ) from error
        yield listener


@contextmanager
def token_file(home: Path) -> Iterator[tuple[Path, str]]:
    """A new token, and the file of mode 0600 that has it as long as the block runs."""
    token = secrets.token_urlsafe(32)
    path = home / "mcp" / f"token-{secrets.token_hex(4)}"
    own_directory(path.parent)
    write_private(path, token)
    try:
        yield path, token
    finally:
        path.unlink(missing_ok=True)


def configured(app: ASGIApp) -> uvicorn.Config:
    """How ``app`` is served."""
    return uvicorn.Config(
        app,
        http=OwnConnection,
        ws="none",
        loop="asyncio",
        log_level="error",
        access_log=False,
    )


def serve(server: ProjectServer, listener: socket.socket, token: str) -> None:
    """Answer on ``listener`` until Ctrl-C or SIGTERM, both of which raise KeyboardInterrupt:
    uvicorn raises a signal again once it has ended, and the token's file has to go before."""

    def end(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, end)
    app = TokenRequired(server.streamable_http_app(), token)
    uvicorn.Server(configured(app)).run(sockets=[listener])
