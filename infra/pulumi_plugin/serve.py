"""A plugin as a server on a loopback port, and its life as a process."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from google.protobuf.empty_pb2 import Empty

from pulumi_plugin.door import HOST, OwnersDoor
from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import plugin_pb2, provider_pb2, provider_pb2_grpc

#: Seconds between checks whether the process that started this one is still there.
_PARENT_CHECK = 1.0
_OPTIONS = [
    # Metadata can be large: no limits, where gRPC's default is 4 MiB.
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    # Two plugins on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
]


class Plugin(provider_pb2_grpc.ResourceProviderServicer):
    """The calls that every plugin answers alike.

    Attributes:
        log: the log of the engine that made contact last.
    """

    def __init__(self, version: str, schema: Callable[[], str], log: EngineLog) -> None:
        self.log = log
        self._version = version
        self._schema = schema

    def Handshake(
        self, request: provider_pb2.ProviderHandshakeRequest, context: grpc.ServicerContext
    ) -> provider_pb2.ProviderHandshakeResponse:
        """What the plugin understands: secrets, and nothing else that is optional."""
        self.log.connect(request.engine_address)
        return provider_pb2.ProviderHandshakeResponse(accept_secrets=True)

    def Attach(self, request: plugin_pb2.PluginAttach, context: grpc.ServicerContext) -> Empty:
        """An engine introduces itself to a plugin that it did not start."""
        self.log.connect(request.address)
        return Empty()

    def GetPluginInfo(self, request: Empty, context: grpc.ServicerContext) -> plugin_pb2.PluginInfo:
        """The plugin's version."""
        return plugin_pb2.PluginInfo(version=self._version)

    def GetSchema(
        self, request: provider_pb2.GetSchemaRequest, context: grpc.ServicerContext
    ) -> provider_pb2.GetSchemaResponse:
        """The package schema."""
        return provider_pb2.GetSchemaResponse(schema=self._schema())


@dataclass(frozen=True, slots=True)
class RunningPlugin:
    """A plugin that is being served.

    Attributes:
        port: its port on 127.0.0.1, as in ``PULUMI_DEBUG_PROVIDERS=gcp:PORT``.
    """

    port: int
    _server: grpc.Server

    def stop(self, grace: float = 1.0) -> None:
        """Refuse new calls, give running ones ``grace`` seconds, end."""
        self._server.stop(grace).wait(grace + 1)


def start(plugin: Plugin, *, threads: int, port: int = 0) -> RunningPlugin:
    """Serve ``plugin`` in this process, to this process's user and nobody else.

    Args:
        plugin: what answers the calls.
        threads: how many calls can run at the same time: one that waits holds a thread, and
            must not hold up the short ones behind it.
        port: port on 127.0.0.1; 0 lets the system choose.

    Raises:
        OSError: the port is taken.
    """
    door = OwnersDoor()
    server = grpc.server(ThreadPoolExecutor(threads), interceptors=[door], options=_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(plugin, server)
    try:
        door.port = bound = server.add_insecure_port(f"{HOST}:{port}")
    except RuntimeError as error:
        raise OSError(f"cannot listen on {HOST}:{port}: the port is taken") from error
    server.start()
    return RunningPlugin(bound, server)


def end_on_signal() -> threading.Event:
    """An event that is set when this process is told to end."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    # A closed reader of our output must not kill a running call.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    return ended


def run(
    plugin: RunningPlugin, ended: threading.Event, orphaned: Callable[[], bool] | None = None
) -> None:
    """Print the port as the first line, as the engine expects it, and serve until ``ended``.

    Args:
        plugin: the plugin.
        ended: see :func:`end_on_signal`.
        orphaned: whether the process that started this one is gone, asked every second.
    """
    sys.stdout.write(f"{plugin.port}\n")
    sys.stdout.flush()
    while not ended.wait(_PARENT_CHECK):
        if orphaned is not None and orphaned():
            return
