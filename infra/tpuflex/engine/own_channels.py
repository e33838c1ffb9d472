"""The program's connections to the engine, each run's its own.

gRPC shares the connections of a process by address, with what they have met: an engine that gets a
port on which an earlier engine of this process has just ended would be taken for unreachable for a
second, and Pulumi's SDK ends the program for that ("Resource monitor has terminated").

A module of its own, because it can only be imported once pulumi is to be loaded.
"""

from __future__ import annotations

from pulumi.runtime._grpc_settings import _GRPC_CHANNEL_OPTIONS

#: https://grpc.github.io/grpc/core/group__grpc__arg__keys.html
_OWN = ("grpc.use_local_subchannel_pool", 1)


def own_channels() -> None:
    """Let every connection that Pulumi's SDK makes from now on know of no other's failures."""
    if _OWN not in _GRPC_CHANNEL_OPTIONS:
        _GRPC_CHANNEL_OPTIONS.append(_OWN)
