"""How an upstream is asked: its connections, its key, and what it says of its model."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp

from pulumi_plugin.peer import ends_here, is_own_connection, require_owner

if TYPE_CHECKING:
    from aiohttp.client import _RequestContextManager
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.connector import Connection as Connected

    from tpuflex.gateway.upstream import Upstream

#: Seconds for a connection to be made, and for a process of this machine to accept it.
_CONNECT_S = 5.0
#: Seconds that a connection without a request is kept: fewer than a server does, so that none is
#: used again just as that closes it. vLLM's closes it after 5 (VLLM_HTTP_TIMEOUT_KEEP_ALIVE).
_IDLE_S = 3.0

#: Whether the connection that a task has got last was there before: it may have been closed just as
#: it was used again.
USED_BEFORE = ContextVar("USED_BEFORE", default=False)
#: Whether a task wants a connection that was not there before.
NEW_CONNECTION = ContextVar("NEW_CONNECTION", default=False)


class NotOursError(aiohttp.ClientConnectionError):
    """Another user's process listens where the upstream should; nothing was sent to it."""


#: What is raised where there is no connection to the upstream, so that it has got nothing.
NOT_CONNECTED = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ServerFingerprintMismatch,
    NotOursError,
)


@dataclass(slots=True, eq=False)
class Connection:
    """How one upstream is asked.

    Attributes:
        upstream: the upstream.
        session: connections to it, which take no proxy from the environment and keep no cookies.
        headers: what every request has: its key, which is neither logged nor handed on.
        max_model_len: tokens of the longest sequence; None where it does not say.
        priority_scheduling: whether its scheduler heeds priorities.
        role_with_first_token: whether the role, with which a chat begins, comes with the first
            token, as vLLM's does, though parsers and stop sequences may hold back what follows.
        prompt_usd_micros: micro-dollars for a token of a prompt; None without a price.
        generated_usd_micros: micro-dollars for a generated token; None without a price.
    """

    upstream: Upstream
    session: aiohttp.ClientSession
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    max_model_len: int | None = None
    priority_scheduling: bool = False
    role_with_first_token: bool = False
    prompt_usd_micros: float | None = None
    generated_usd_micros: float | None = None

    def request(
        self, method: str, path: str, *, headers: Mapping[str, str] | None = None, **how: Any
    ) -> _RequestContextManager:
        """A request for ``path`` below its base URL, to be entered with ``async with``; nothing is
        redirected.

        Args:
            method: HTTP's method.
            path: begins with a slash.
            headers: beside those that every request has.
            **how: as for :meth:`aiohttp.ClientSession.request`.
        """
        url = f"{self.upstream.url}{path}"
        all_headers = {**self.headers, **(headers or {})}
        return self.session.request(method, url, headers=all_headers, allow_redirects=False, **how)

    def root(self, path: str, **how: Any) -> _RequestContextManager:
        """A GET for ``path`` beside its base URL: what the server says of itself."""
        url = f"{self.upstream.url.removesuffix('/v1')}{path}"
        return self.session.get(url, headers=self.headers, allow_redirects=False, **how)


def open_session(fingerprint: str = "") -> aiohttp.ClientSession:
    """Connections to one server, as many as are needed. There is no limit on an answer's time.

    Args:
        fingerprint: SHA-256 of the certificate that the server has, in hex, whoever signed it and
            for whatever name; empty for one that is verified as browsers do.
    """
    return aiohttp.ClientSession(
        connector=_OwnersConnector(
            ssl=aiohttp.Fingerprint(bytes.fromhex(fingerprint)) if fingerprint else True,
            limit=0,
            keepalive_timeout=_IDLE_S,
        ),
        # No compression: it would hold back the events of a stream.
        headers={"Accept-Encoding": "identity", "User-Agent": "tpuflex-gateway"},
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S),
        # A small answer may be a very long one that is compressed: it is refused.
        auto_decompress=False,
        trust_env=False,
    )


def lacks_descriptors(error: BaseException) -> bool:
    """Whether a connection could not be made since this process, or machine, may open no more
    files: which says nothing of the upstream."""
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


class _OwnersConnector(aiohttp.TCPConnector):
    """Connections that end, on this machine, at a process of this user alone: every user can listen
    where an emulated host, or a tunnel, should. With TLS the certificate tells."""

    def __init__(self, **how: Any) -> None:
        super().__init__(**how)
        self._checked: WeakSet[ResponseHandler] = WeakSet()

    async def connect(
        self,
        req: aiohttp.ClientRequest,
        traces: list[Any],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's own signature
    ) -> Connected:
        """A connection that may be used."""
        found = await super().connect(req, traces, timeout)
        while NEW_CONNECTION.get() and found.protocol in self._checked:
            found.close()
            found = await super().connect(req, traces, timeout)
        protocol = found.protocol
        USED_BEFORE.set(protocol in self._checked)
        if protocol is None or protocol in self._checked:
            return found
        try:
            await _require_owner(found)
        except BaseException as error:
            found.close()
            if isinstance(error, ConnectionRefusedError):
                raise NotOursError(f"nothing was sent: {error}") from error
            if isinstance(error, OSError):
                raise aiohttp.ClientOSError(error.errno, str(error)) from error
            raise
        self._checked.add(protocol)
        return found


async def _require_owner(connection: Connected) -> None:
    transport = connection.transport
    if transport is None:
        raise ConnectionResetError("the connection was closed at once")
    socket = transport.get_extra_info("socket")
    if transport.get_extra_info("sslcontext") is not None or not ends_here(socket):
        return
    # In most cases it is accepted by now. If not, that is waited for elsewhere: it may be this very
    # thread that accepts it.
    if not is_own_connection(socket):
        await asyncio.to_thread(require_owner, socket, within=_CONNECT_S)
