"""Progress lines in the engine's log, shown by `pulumi up` at the resource they are about.

All text that leaves a plugin ends up on the console and in CI logs, so credentials are removed,
and what a terminal would obey is spelled out: the engine prints it as it is.
"""

from __future__ import annotations

from threading import Lock

import grpc

from pulumi_plugin.credentials import scrub
from pulumi_plugin.protocol import engine_pb2, engine_pb2_grpc

#: Seconds after which a line that the engine does not accept is dropped.
_TIMEOUT = 5.0


class EngineLog:
    """The engine's log service. Losing a line never fails the work it is about."""

    def __init__(self, address: str = "") -> None:
        self._lock = Lock()
        self._address = address
        self._stub: engine_pb2_grpc.EngineStub | None = None

    @property
    def address(self) -> str:
        """Where the engine takes lines; empty until one has made contact."""
        with self._lock:
            return self._address

    def connect(self, address: str) -> None:
        """Send lines to the engine at ``address`` from now on."""
        with self._lock:
            if address and address != self._address:
                self._address, self._stub = address, None

    def write(self, urn: str, text: str, *, passing: bool = False, warning: bool = False) -> None:
        """Show ``text`` at the resource ``urn``; ``passing`` text is replaced by the next."""
        stub = self._connected()
        if stub is None:
            return
        line = engine_pb2.LogRequest(
            severity=engine_pb2.WARNING if warning else engine_pb2.INFO,
            message=scrub(text),
            urn=urn,
            ephemeral=passing,
        )
        try:
            stub.Log(line, timeout=_TIMEOUT)
        except grpc.RpcError:
            return  # the engine may be about to exit

    def _connected(self) -> engine_pb2_grpc.EngineStub | None:
        with self._lock:
            if self._stub is None and self._address:
                channel = grpc.insecure_channel(self._address)
                self._stub = engine_pb2_grpc.EngineStub(channel)
            return self._stub
