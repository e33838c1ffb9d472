"""Whether ranges of addresses, together, are as good as the whole internet."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from tpuflex.settings.base import WIDEST_PREFIX

_V4 = ipaddress.IPv4Network
_V6 = ipaddress.IPv6Network
_Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

#: What no packet from the internet has as its source: https://www.rfc-editor.org/rfc/rfc1918,
#: https://www.rfc-editor.org/rfc/rfc6598, https://www.rfc-editor.org/rfc/rfc4193, link-local, and
#: loopback.
_INTERNAL_V4 = tuple(
    map(
        _V4,
        (
            "10.0.0.0/8",
            "172.16.0.0/12",
            "192.168.0.0/16",
            "100.64.0.0/10",
            "169.254.0.0/16",
            "127.0.0.0/8",
        ),
    )
)
_INTERNAL_V6 = tuple(map(_V6, ("fc00::/7", "fe80::/10")))
_MAPPED = _V6("::ffff:0:0/96")

#: As `tpuflex:network.allowed_cidrs` has it: more public addresses than its widest range has are as
#: good as all.
MOST_V4 = 2 ** (32 - WIDEST_PREFIX)
#: The internet has assigned 2000::/3; nobody's clients fill a /19, the largest allocations to one
#: network (https://www.iana.org/assignments/ipv6-unicast-address-assignments).
MOST_V6 = 2 ** (128 - 19)


@dataclass(frozen=True, slots=True)
class Reach:
    """What ranges reach together.

    Attributes:
        public_v4: number of their IPv4 addresses that the internet has.
        public_v6: the same of IPv6.
        unreadable: texts that are no ranges.
    """

    public_v4: int
    public_v6: int
    unreadable: tuple[str, ...]

    @property
    def open(self) -> bool:
        """Whether it is as good as the whole internet."""
        return self.public_v4 > MOST_V4 or self.public_v6 > MOST_V6


def reach_of(texts: Iterable[str]) -> Reach:
    """What the ranges ``texts`` reach together, whatever their order, overlap and spelling."""
    four: list[ipaddress.IPv4Network] = []
    six: list[ipaddress.IPv6Network] = []
    unreadable = []
    for text in texts:
        network = _network(text)
        if network is None:
            unreadable.append(text)
        elif isinstance(network, ipaddress.IPv4Network):
            four.append(network)
        elif network.subnet_of(_MAPPED):
            four.append(_V4((int(network.network_address) & 0xFFFFFFFF, network.prefixlen - 96)))
        else:
            six.append(network)
    return Reach(
        _public(ipaddress.collapse_addresses(four), _INTERNAL_V4),
        _public(ipaddress.collapse_addresses(six), _INTERNAL_V6),
        tuple(unreadable),
    )


def _network(text: str) -> _Network | None:
    """``text`` as a range; bits beyond its prefix count for nothing, as a router has it."""
    address, _, prefix = text.strip().partition("/")
    # 0.0.0.0/00 is a range to some parsers, and none to others: take it for the wider one.
    spelled = f"{address}/{int(prefix)}" if re.fullmatch(r"[0-9]{1,4}", prefix) else ""
    try:
        return ipaddress.ip_network(spelled or text.strip(), strict=False)
    except ValueError:
        return None


def _public(networks: Iterable[_Network], internal: tuple[_Network, ...]) -> int:
    return sum(
        network.num_addresses - sum(_common(network, inside) for inside in internal)
        for network in networks
    )


def _common(one: _Network, other: _Network) -> int:
    """Number of the addresses that both have: of two ranges, one is in the other, or none is."""
    if not one.overlaps(other):
        return 0
    return min(one.num_addresses, other.num_addresses)
