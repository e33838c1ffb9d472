"""Rules of reserved addresses, global and regional (IPv4 only)."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from itertools import islice

from embedded_cloud.compute.errors import invalid, required
from embedded_cloud.compute.networks import NETWORK_PATTERN
from embedded_cloud.compute.paths import named
from embedded_cloud.compute.state import ResourceKind, Target
from embedded_cloud.errors import CloudError, unimplemented
from embedded_cloud.json_types import JsonObject, children, text, texts

#: Documentation range (RFC 5737): emulated external addresses reach nothing.
_EXTERNAL = ipaddress.IPv4Network("203.0.113.0/24")
_SUBNETWORK_PATTERN = r"projects/[^/]+/regions/[^/]+/subnetworks/[^/]+"


def complete_address(target: Target, asked: JsonObject, _before: JsonObject | None) -> JsonObject:
    """An address as Compute fills it in."""
    kind = text(asked, "addressType", "EXTERNAL")
    if text(asked, "ipVersion", "IPV4") != "IPV4":
        raise unimplemented("addresses of ipVersion IPV6")
    resource: JsonObject = {
        "networkTier": "PREMIUM",
        "labelFingerprint": "42WmSpB8rSM=",
        **asked,
        "addressType": kind,
        "status": "RESERVED",
    }
    if target.scope.region:
        resource["region"] = target.scope.path
    resource["address"] = _choose(target, asked, _pool(target, asked, kind))
    return resource


def address_users(target: Target) -> Iterable[str]:
    """Routers that translate to it."""
    for router in target.resources.all("routers", f"{target.scope.path}/"):
        if any(target.path in texts(nat, "natIps") for nat in children(router, "nats")):
            yield text(router, "selfLink")


def _pool(target: Target, asked: JsonObject, kind: str) -> ipaddress.IPv4Network:
    if kind == "EXTERNAL":
        return _EXTERNAL
    if not target.scope.region:
        network = text(asked, "network")
        if not network:
            raise required("resource.network")
        named(network, "resource.network", NETWORK_PATTERN, target.resources.exists)
        raise unimplemented("global internal addresses")
    path = text(asked, "subnetwork")
    if not path:
        raise required("resource.subnetwork")
    named(path, "resource.subnetwork", _SUBNETWORK_PATTERN, target.resources.exists)
    return ipaddress.IPv4Network(text(target.resources.get(path) or {}, "ipCidrRange"))


def _choose(target: Target, asked: JsonObject, pool: ipaddress.IPv4Network) -> str:
    taken = set(_taken(target, pool))
    if requested := text(asked, "address"):
        if requested in taken:
            raise invalid("resource.address", requested, "The address is already reserved.")
        return requested
    # The first two addresses of a range are Google's.
    free = (str(host) for host in islice(pool.hosts(), 1, None) if str(host) not in taken)
    address = next(free, None)
    if address is None:
        raise CloudError(
            403,
            "RESOURCE_EXHAUSTED",
            "Quota 'IN_USE_ADDRESSES' exceeded: no address is left.",
            legacy_reason="quotaExceeded",
        )
    return address


def _taken(target: Target, pool: ipaddress.IPv4Network) -> Iterator[str]:
    for other in target.resources.all("addresses", "projects/"):
        if pool is _EXTERNAL or text(other, "addressType") == "INTERNAL":
            yield text(other, "address")


ADDRESS = ResourceKind("addresses", "address", True, complete_address, address_users)
GLOBAL_ADDRESS = ResourceKind("addresses", "address", False, complete_address, address_users)
