"""HTTP connections to this user's own processes on loopback, and to nobody else's.

When the embedded cloud dies, its port is free for every user of the machine, and whoever takes it
would be sent the token with the next request.
"""

from __future__ import annotations

from typing import Any

from requests.adapters import HTTPAdapter
from urllib3 import HTTPConnectionPool
from urllib3.connection import HTTPConnection

from pulumi_plugin.peer import require_owner

#: Seconds for the embedded cloud to accept a connection; a busy one takes milliseconds.
_ACCEPTED_WITHIN = 10.0


class _OwnersConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        require_owner(self.sock, within=_ACCEPTED_WITHIN)


class _OwnersPool(HTTPConnectionPool):
    ConnectionCls = _OwnersConnection


class OwnersAdapter(HTTPAdapter):
    """Sends plain HTTP requests over connections that a process of this user has accepted; any
    other is a `requests.ConnectionError`, before anything is sent."""

    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        """Make the pools of connections."""
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = {"http": _OwnersPool}
