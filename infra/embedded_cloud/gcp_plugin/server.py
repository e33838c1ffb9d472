"""The stand-in as a server on a loopback port."""

from __future__ import annotations

import os
from collections.abc import Mapping

from embedded_cloud.gcp_plugin.provider import GcpStandIn, Timing
from embedded_cloud.gcp_plugin.rest import Rest
from embedded_cloud.gcp_plugin.token import FixedToken, Token
from pulumi_plugin.serve import RunningPlugin, start
from tpuflex.errors import EmulatorError

#: Calls that can run at the same time.
_THREADS = 64


def serve(
    base_url: str,
    port: int = 0,
    *,
    token: str | Token,
    environ: Mapping[str, str] | None = None,
    timing: Timing | None = None,
) -> RunningPlugin:
    """Serve the stand-in in this process, on threads of its own.

    Args:
        base_url: where the embedded cloud listens; must be a loopback address.
        port: port on 127.0.0.1; 0 lets the system choose.
        token: the embedded cloud's access token, or what gives one; sent nowhere else.
        environ: where default project and region are looked up; by default this process's.
        timing: clock and pause of calls that wait.

    Raises:
        EmulatorError: ``base_url`` is not on loopback, or the port is taken.
    """
    given = FixedToken(token) if isinstance(token, str) else token
    plugin = GcpStandIn(Rest(base_url, given), os.environ if environ is None else environ, timing)
    try:
        return start(plugin, threads=_THREADS, port=port)
    except OSError as error:
        raise EmulatorError(
            f"the gcp stand-in plugin {error}", hint="let the system choose one: --port 0"
        ) from error
