"""The addresses of nodes as their network has them, where those on loopback are not shown."""

from __future__ import annotations

import ipaddress

from embedded_cloud.compute.locations import region_of
from embedded_cloud.compute.paths import relative
from embedded_cloud.compute.state import Resources
from embedded_cloud.json_types import child, text
from embedded_cloud.tpu.records import Node

#: Range of an automatic subnetwork (us-central1's; https://cloud.google.com/vpc/docs/subnets#ip-ranges).
_AUTOMATIC = "10.128.0.0/20"
#: Addresses at the beginning of a subnetwork that no host gets: the network's and the gateway's.
_RESERVED = 2


def private_addresses(node: Node, resources: Resources) -> tuple[str, ...]:
    """The addresses of ``node`` in its subnetwork, one for each of its loopback addresses.

    A node keeps them for its life: they follow from the loopback ones, of which each of an
    embedded cloud's nodes has its own.
    """
    subnetwork = text(child(node.spec, "networkConfig"), "subnetwork")
    if subnetwork and "/" not in subnetwork:
        # A bare name is that of the subnetwork in the region of the node's zone.
        subnetwork = f"regions/{region_of(node.zone)}/subnetworks/{subnetwork}"
    found = resources.get(str(relative(subnetwork, node.project))) if subnetwork else None
    network = ipaddress.ip_network(text(found or {}, "ipCidrRange") or _AUTOMATIC)
    return tuple(str(_within(network, address)) for address in node.addresses)


def _within(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, loopback: str
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    # 127.x.y.1 upwards: its last part numbers the hosts.
    number = int(loopback.rpartition(".")[2]) - 1
    room = network.num_addresses - _RESERVED - 1
    return network[_RESERVED + number % max(1, room)]
