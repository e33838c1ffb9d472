"""The process of Pulumi's plugin, `pulumi-resource-tpuflex [ENGINE_ADDRESS]`: it answers for the
provider, and makes components for programs in other languages.

Prints the port it listens on as its first line, as Pulumi's engine expects of a plugin.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_plugin.log import EngineLog
from pulumi_plugin.protocol import provider_pb2
from pulumi_plugin.serve import end_on_signal, run, start
from tpuflex.errors import AccessError
from tpuflex.google.timing import Timing
from tpuflex.naming import VLLM_ENDPOINT
from tpuflex.project import project_root, require_own_project
from tpuflex.provider.configuration import (
    DRAIN_VARIABLE,
    NEW_HOST_VARIABLE,
    Configuration,
    endpoints,
)
from tpuflex.provider.servicer import Servicer

if TYPE_CHECKING:
    from tpuflex.google.queued_resources import TpuClient
    from tpuflex.provider.resources import Connect

#: A wait for capacity holds its thread for days; no call should have to wait for another.
_THREADS = 1000
#: Seconds that running calls get to answer when the process is told to end.
_GRACE = 2.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until told to stop, or until the engine that started this process is gone.

    Raises:
        SystemExit: others could change the project that the engine works in.
    """
    try:
        require_own_project(project_root(Path()), os.environ)
    except AccessError as error:
        raise SystemExit(f"{error}") from error
    words = list(sys.argv[1:] if arguments is None else arguments)
    address = next((word for word in words if not word.startswith("-")), "")
    # Read before the port is printed: from then on the engine may be killed at any moment.
    parent = os.getppid()
    ended = end_on_signal()
    # The machine's clocks, or those of tests that set the embedded cloud's pace.
    timing = functools.partial(Timing.of_environment, os.environ)
    servicer = Servicer(
        EngineLog(address),
        connector(os.environ),
        timing,
        {VLLM_ENDPOINT: _construct},
        drains=os.environ.get(DRAIN_VARIABLE) != "0",
        new_host=os.environ.get(NEW_HOST_VARIABLE) == "1",
        environ=os.environ,
    )
    plugin = start(servicer, threads=_THREADS)
    threading.Thread(target=_load, daemon=True).start()
    # Without its engine nothing receives the replies. A plugin that engines attach to has no
    # engine of its own, and no address.
    run(plugin, ended, orphaned=lambda: bool(address) and os.getppid() != parent)
    servicer.stop()
    plugin.stop(_GRACE)
    # Not sys.exit: a thread inside a slow HTTP request would hold the process up.
    os._exit(0)


def _load() -> None:
    """Import what queued resources need while the engine makes contact."""
    with suppress(Exception):  # the first call about one reports it
        import tpuflex.provider.resources  # noqa: F401


def _construct(
    request: provider_pb2.ConstructRequest, engine_address: str
) -> provider_pb2.ConstructResponse:
    # Imported here: only programs in other languages ask for components, which take the SDK, the
    # settings and pulumi-gcp, for seconds.
    from tpuflex.remote.construct import construct

    return construct(request, engine_address)


def connector(environ: Mapping[str, str]) -> Connect:
    """Makes TPU clients for the endpoints that ``environ`` names."""

    def connect(configured: Configuration, timing: Timing) -> TpuClient:
        # Imported here: a preview without calls needs no HTTP stack.
        from tpuflex.google.interruptible import InterruptibleSession
        from tpuflex.google.queued_resources import TpuClient
        from tpuflex.google.session import authorized_session
        from tpuflex.google.transport import Transport

        apis = endpoints(configured, environ)
        signed = authorized_session(apis, environ, configured.project or "")
        session = InterruptibleSession(signed, stopped=lambda: timing.pause(0))
        return TpuClient(Transport(session, apis.tpu, timing))

    return connect


if __name__ == "__main__":
    main()
