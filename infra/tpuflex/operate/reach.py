"""Reaching a stack's endpoint: directly, or through a tunnel that is closed afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.gcloud_commands import held_tunnel
from tpuflex.operate.route import DIRECT_WITHIN_S, Route, route, takes_connections
from tpuflex.operate.tunnel import OPEN_WITHIN_S, open_tunnel
from tpuflex.operate.way_in import require_gcloud, way_in_environment

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection


@dataclass(frozen=True, slots=True)
class Reached:
    """An endpoint within reach.

    Attributes:
        url: its base URL from here, which ends in ``/v1``.
        through: ``direct`` or ``iap``.
    """

    url: str
    through: Route


@contextmanager
def reached(
    invocation: Invocation,
    cloud: Connection,
    status: SliceStatus,
    *,
    tunnel: bool,
    within: float = OPEN_WITHIN_S,
) -> Iterator[Reached]:
    """The endpoint of ``status``, which has an address, while the block runs.

    Says on standard error why a tunnel is opened, and by which command.

    Args:
        invocation: the command.
        cloud: the stack's cloud.
        status: its slice.
        tunnel: whether a tunnel may be opened.
        within: seconds for it to open.

    Raises:
        TpuflexError: there is no gcloud, or it opens no tunnel.
    """
    settings, address = cloud.stack.settings, status.address
    why = _why_a_tunnel(cloud, address) if tunnel else ""
    if not why:
        yield Reached(settings.url(address), Route.DIRECT)
        return
    port = settings.serving.port

    def words(local: int) -> tuple[str, ...]:
        command = held_tunnel(status.node, local_port=local, address=address, port=port)
        found = require_gcloud(command, cloud.environ)
        invocation.output.progress(f"{why}: opening a tunnel through IAP.\n$ {command}")
        return found

    environ = way_in_environment(cloud)
    with open_tunnel(words, environ, project=settings.project, within=within) as local:
        yield Reached(settings.url("127.0.0.1", port=local), Route.IAP)


def _why_a_tunnel(cloud: Connection, address: str) -> str:
    """Why the endpoint at ``address`` is reached through a tunnel; empty if it is not."""
    settings = cloud.stack.settings
    cidrs = settings.network.allowed_cidrs
    way = route(address, embedded=cloud.stack.embedded, allowed_cidrs=cidrs)
    if way is Route.IAP:
        let_in = "" if cidrs else ", and tpuflex:network.allowed_cidrs lets nobody in"
        return f"{address} is a private address{let_in}"
    if way is Route.TRY and not takes_connections(address, settings.serving.port):
        return f"{address} takes no connection from here within {DIRECT_WITHIN_S:.0f} s"
    return ""
