"""Run the stand-in as a server on a loopback port."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent import futures
from dataclasses import dataclass

import grpc

from embedded_cloud.gcp_plugin.protocol import provider_pb2_grpc
from embedded_cloud.gcp_plugin.provider import GcpStandIn, Timing
from embedded_cloud.gcp_plugin.rest import Rest
from tpuflex.errors import EmulatorError

HOST = "127.0.0.1"

#: Calls that can wait at the same time: a waiting call holds a thread, and must not hold up
#: the short ones behind it.
WORKERS = 64

_STOP_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class RunningPlugin:
    """A plugin that is being served.

    Attributes:
        port: its port on 127.0.0.1, for ``PULUMI_DEBUG_PROVIDERS=gcp:PORT``.
    """

    port: int
    _server: grpc.Server

    def stop(self) -> None:
        """Refuse new calls, give running ones a second, end."""
        self._server.stop(_STOP_GRACE_S).wait()


def serve(
    base_url: str,
    port: int = 0,
    *,
    token: str,
    environ: Mapping[str, str] | None = None,
    timing: Timing | None = None,
) -> RunningPlugin:
    """Serve the stand-in in this process, on threads of its own.

    Args:
        base_url: where the embedded cloud listens; must be a loopback address.
        port: port on 127.0.0.1; 0 lets the system choose.
        token: what opens the embedded cloud; sent there and nowhere else.
        environ: where default project and region are looked up; the process's if not given.
        timing: clock and pause of calls that wait.

    Raises:
        EmulatorError: ``base_url`` is not on loopback, or the port is taken.
    """
    rest = Rest(base_url, token)
    server = grpc.server(
        futures.ThreadPoolExecutor(max_workers=WORKERS, thread_name_prefix="gcp-stand-in"),
        options=[
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            # Two plugins on one port would each get half of the calls.
            ("grpc.so_reuseport", 0),
        ],
    )
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(
        GcpStandIn(rest, os.environ if environ is None else environ, timing), server
    )
    try:
        bound = server.add_insecure_port(f"{HOST}:{port}")
    except RuntimeError as error:
        raise EmulatorError(
            f"the gcp stand-in plugin cannot listen on {HOST}:{port}: the port is taken",
            hint="let the system choose one: --port 0",
        ) from error
    server.start()
    return RunningPlugin(bound, server)
