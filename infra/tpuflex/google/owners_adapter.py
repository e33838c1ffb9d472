"""HTTP connections that on this machine end at this user's own processes, and at nobody else's.

When the embedded cloud dies, or a tunnel ends, its port is free for every user of the machine, and
whoever takes it would be sent the token, or the key, with the next request.
"""

from __future__ import annotations

from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from pulumi_plugin.peer import ends_here, is_told, require_owner
from tpuflex.errors import AccessError

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
