"""Entry of the provider process: `pulumi-resource-tpuflex [ENGINE_ADDRESS]`.

Prints the port it listens on as its first line, as Pulumi's engine expects of a plugin.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Mapping, Sequence

from pulumi_plugin.log import EngineLog
from pulumi_plugin.serve import end_on_signal, run, start
from tpuflex.gcp.queued_resources import TpuClient
from tpuflex.gcp.timing import Timing
from tpuflex.provider.configuration import Configuration, endpoints
from tpuflex.provider.servicer import Servicer

#: A wait for capacity holds its thread for days: enough of them that none waits for another.
_THREADS = 1000
#: Seconds that running calls get to answer when the process is told to end.
_GRACE = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop, or until the engine that started this process is gone."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    address = next((word for word in words if not word.startswith("-")), "")
    # Read before the port is printed: from then on the engine may be killed at any moment.
    parent = os.getppid()
    ended = end_on_signal()
    # The machine's clocks; at the embedded cloud's pace in tests that set one.
    timing = functools.partial(Timing.of_environment, os.environ)
    servicer = Servicer(EngineLog(address), connector(os.environ), timing)
    plugin = start(servicer, threads=_THREADS)
    # Without its engine nobody hears the answers. One that is attached to has no engine.
    run(plugin, ended, orphaned=lambda: bool(address) and os.getppid() != parent)
    servicer.stop()
    plugin.stop(_GRACE)
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
