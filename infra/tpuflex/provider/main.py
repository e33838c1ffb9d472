"""Entry of the provider process: `pulumi-resource-tpuflex [ENGINE_ADDRESS]`.

Prints the port it listens on as its first line, as Pulumi's engine expects of a plugin.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import grpc

from pulumi_plugin.protocol import provider_pb2_grpc
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import Timing
from tpuflex.provider.configuration import Configuration, endpoints
from tpuflex.provider.engine_log import EngineLog
from tpuflex.provider.servicer import Servicer

#: A wait for capacity holds its thread for days: enough of them that none waits for another.
_THREADS = 1000
#: Seconds that calls in flight get to answer when the process is told to end.
_GRACE = 2.0
#: Seconds between looks at whether the engine is still there.
_PARENT_CHECK = 1.0
#: Pulumi's own limit on message size (400 MiB), for large metadata.
_OPTIONS = [("grpc.max_receive_message_length", 400 << 20)]


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop, or until the engine that started this process is gone."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    address = next((argument for argument in given if not argument.startswith("-")), "")
    # Asked for before the port is told: from then on the engine may be killed at any moment.
    parent = os.getppid()
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    # A reader of our output that went away must not kill a wait.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)

    # The machine's clocks; at the embedded cloud's pace in tests that set one.
    timing = functools.partial(Timing.of_environment, os.environ)
    servicer = Servicer(EngineLog(address), connector(os.environ), timing)
    server = grpc.server(ThreadPoolExecutor(_THREADS), options=_OPTIONS)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()

    while not ended.wait(_PARENT_CHECK):
        if address and os.getppid() != parent:
            break  # started by an engine that is gone: nobody hears the answer any more
    servicer.stop()
    server.stop(_GRACE).wait(_GRACE)
    # Not sys.exit: a thread inside a slow HTTP request would hold the process up.
    os._exit(0)


def connector(environ: Mapping[str, str]) -> _Connect:
    """Makes TPU clients for the endpoints that ``environ`` names."""
    return _Connect(environ)


class _Connect:
    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def __call__(self, configured: Configuration, timing: Timing) -> TpuClient:
        # Imported here: previews that touch nothing do without the HTTP stack.
        from tpuflex.gcp.interruptible import InterruptibleSession
        from tpuflex.gcp.session import authorized_session
        from tpuflex.gcp.transport import Transport

        found = endpoints(configured, self._environ)
        signed = authorized_session(found, self._environ)
        session = InterruptibleSession(signed, stopped=lambda: timing.pause(0))
        return TpuClient(Transport(session, found.tpu, timing))


if __name__ == "__main__":
    main()
