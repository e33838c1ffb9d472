"""The program's connections with the engine, each run's its own and closed to other users.

gRPC shares the connections of a process by address, with what they have met: an engine that gets a
port on which an earlier engine of this process has just ended would be taken for unreachable for a
second, and Pulumi's SDK ends the program for that ("Resource monitor has terminated").

The Automation API serves our program, and takes the engine's events, on loopback ports without any
credential: another user could run the program against an engine of theirs. It makes its servers
with ``grpc.server`` of its own module (`pulumi.automation._stack`, 3.256) and takes no
interceptors, so that module is given a ``grpc`` whose servers have a door.

A module of its own, because it can only be imported once pulumi is to be loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from pulumi.automation import _stack
from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

from pulumi_plugin.door import HOST, OwnersDoor

#: https://grpc.github.io/grpc/core/group__grpc__arg__keys.html
_OWN = ("grpc.use_local_subchannel_pool", 1)


def own_channels() -> None:
    """Let every connection that Pulumi's SDK makes from now on know of no other's failures."""
    if _OWN not in _GRPC_CHANNEL_OPTIONS:
        _GRPC_CHANNEL_OPTIONS.append(_OWN)


def close_to_others() -> None:
    """Give every server that the Automation API makes from now on a door."""
    vars(_stack)["grpc"] = _Grpc()


class _Grpc:
    """The module ``grpc``, but for the servers that it makes."""

    def __getattr__(self, name: str) -> Any:
        return getattr(grpc, name)

    def server(
        self, pool: ThreadPoolExecutor, options: Sequence[tuple[str, Any]] = ()
    ) -> grpc.Server:
        """A server that answers processes of this user only."""
        door = OwnersDoor()
        server = grpc.server(pool, interceptors=[door], options=options)
        listen = server.add_insecure_port

        def add_insecure_port(address: str) -> int:
            if not address.startswith(f"{HOST}:"):
                raise ValueError(f"{address}: the engine's servers listen on {HOST} only")
            door.port = listen(address)
            return door.port

        server.add_insecure_port = add_insecure_port  # type: ignore[method-assign]
        return server
