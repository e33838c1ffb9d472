"""HTTP with bounds: loopback connections end only at this user's own processes, and answers cannot
exhaust the caller's memory.

When the embedded cloud dies, or a tunnel ends, any user of the machine can take its port, and would
receive the token or the API key with the next request.
"""

from __future__ import annotations

from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from pulumi_plugin.peer import ends_here, is_told, require_owner
from tpuflex.errors import AccessError, ApiError

#: Bytes of one answer, decompressed. The largest that Google gives is a page of 500 nodes, each
#: with a startup script in its metadata.
MAX_BYTES = 128 * 1024 * 1024
_PIECE = 256 * 1024


def read_whole(response: requests.Response, limit: int = MAX_BYTES) -> None:
    """Read the body of ``response``, which was asked for as a stream, for its ``content``.

    Raises:
        ApiError: it has more than ``limit`` bytes; the rest is not read.
        requests.RequestException: it broke off.
    """
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > limit:
            response.close()
            url = (response.url or "").partition("?")[0]
            raise ApiError(
                f"{url} answers with more than {limit} bytes.", status=response.status_code, url=url
            )
    # As requests itself does at the first access to `content`, which knows no bound.
    response._content = bytes(body)
    response._content_consumed = True  # type: ignore[attr-defined]  # not in its type information


#: Seconds for a process of this machine to accept a connection; a busy one takes milliseconds.
_ACCEPTED_WITHIN = 10.0


class _OwnersConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        if not ends_here(self.sock):
            return
        try:
            require_owner(self.sock, within=_ACCEPTED_WITHIN)
        except ConnectionRefusedError as error:
            raise AccessError(
                f"Nothing was sent to http://{self.host}:{self.port}: {str(error).rstrip('.')}.",
                hint="Use another port: whoever listens there could read it." if is_told() else "",
            ) from error


class _OwnersPool(HTTPConnectionPool):
    ConnectionCls = _OwnersConnection


class OwnersAdapter(HTTPAdapter):
    """Sends plain HTTP requests. To a process of this machine it does over connections that one of
    this user has accepted; another user's is an AccessError, before anything is sent."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _OwnersPool}
