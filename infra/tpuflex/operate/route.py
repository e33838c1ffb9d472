"""How an endpoint is reached from here: at its address, or through a tunnel."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from enum import StrEnum

#: Seconds for an address to take a connection, where the stack's firewall lets somebody in.
DIRECT_WITHIN_S = 2.0


class Route(StrEnum):
    """A way to an endpoint."""

    DIRECT = "direct"
    TRY = "try"
    IAP = "iap"


def route(address: str, *, embedded: bool, allowed_cidrs: Collection[str]) -> Route:
    """The way to an endpoint at ``address``.

    An address is only tried where the stack lets somebody in at all: in another network the same
    private address may be a stranger's, who would be sent the API key.

    Args:
        address: the host's internal address.
        embedded: whether the host is emulated: its private address leads nowhere.
        allowed_cidrs: the ranges that the stack's firewall lets reach the serving port.
    """
    if ipaddress.ip_address(address).is_loopback:
        return Route.DIRECT
    return Route.TRY if allowed_cidrs and not embedded else Route.IAP


def takes_connections(address: str, port: int, *, within: float = DIRECT_WITHIN_S) -> bool:
    """Whether something at ``address`` takes a TCP connection within so many seconds."""
    try:
        with socket.create_connection((address, port), within):
            return True
    except OSError:
        return False
