"""Rules of Cloud Routers and their NATs."""

from __future__ import annotations

from collections.abc import Iterable

from embedded_cloud.compute.errors import invalid, required, violated
from embedded_cloud.compute.networks import NETWORK_PATTERN
from embedded_cloud.compute.paths import named
from embedded_cloud.compute.state import ResourceKind, Target, check_name, check_unchanged
from embedded_cloud.json_types import JsonObject, child, children, text, texts

_SOURCES = {
    "ALL_SUBNETWORKS_ALL_IP_RANGES",
    "ALL_SUBNETWORKS_ALL_PRIMARY_IP_RANGES",
    "LIST_OF_SUBNETWORKS",
}


def complete_router(target: Target, asked: JsonObject, before: JsonObject | None) -> JsonObject:
    """A router as Compute fills it in."""
    network = text(asked, "network")
    if not network:
        raise required("resource.network")
    named(network, "resource.network", NETWORK_PATTERN, target.resources.exists)
    check_unchanged(before, asked, ("network",), "It cannot be changed.")
    nats = children(asked, "nats")
    if nats:
        _check_policy(target)
    names = [text(nat, "name") for nat in nats]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise invalid("resource.nats", sorted(doubled)[0], "NAT names must be unique.")
    resource: JsonObject = {
        "encryptedInterconnectRouter": False,
        **asked,
        "region": target.scope.path,
    }
    if "nats" in asked:
        resource["nats"] = [_nat(target, nat, index) for index, nat in enumerate(nats)]
    return resource


def router_users(_target: Target) -> Iterable[str]:
    """Nothing that is emulated (VPN tunnels, attachments) uses a router."""
    return ()


def _check_policy(target: Target) -> None:
    policies = target.resources.strictness().organization_policies
    if policies.restricts("compute.restrictCloudNATUsage"):
        raise violated("compute.restrictCloudNATUsage", f"projects/{target.scope.project}")


def _nat(target: Target, nat: JsonObject, index: int) -> JsonObject:
    field = f"resource.nats[{index}]"
    check_name(nat)
    source = text(nat, "sourceSubnetworkIpRangesToNat")
    if source not in _SOURCES:
        raise required(f"{field}.sourceSubnetworkIpRangesToNat")
    listed = children(nat, "subnetworks")
    if (source == "LIST_OF_SUBNETWORKS") != bool(listed):
        raise invalid(
            f"{field}.subnetworks",
            [text(each, "name") for each in listed],
            "Subnetworks go with LIST_OF_SUBNETWORKS, and only with it.",
        )
    for each in listed:
        pattern = r"projects/[^/]+/regions/[^/]+/subnetworks/[^/]+"
        named(text(each, "name"), f"{field}.subnetworks", pattern, target.resources.exists)
    _check_addresses(target, nat, field)
    completed: JsonObject = {
        "type": "PUBLIC",
        "enableDynamicPortAllocation": False,
        "enableEndpointIndependentMapping": False,
        "endpointTypes": ["ENDPOINT_TYPE_VM"],
        "autoNetworkTier": "PREMIUM",
        **{key: value for key, value in nat.items() if value is not None},
    }
    # Compute adds no logConfig to a NAT that was made without one.
    if log_config := child(nat, "logConfig"):
        completed["logConfig"] = {"enable": False, "filter": "ALL", **log_config}
    return completed


def _check_addresses(target: Target, nat: JsonObject, field: str) -> None:
    manual = text(nat, "natIpAllocateOption") == "MANUAL_ONLY"
    if not text(nat, "natIpAllocateOption"):
        raise required(f"{field}.natIpAllocateOption")
    addresses = texts(nat, "natIps")
    if manual != bool(addresses):
        why = "Addresses go with MANUAL_ONLY, and only with it."
        raise invalid(f"{field}.natIps", addresses, why)
    for address in addresses:
        pattern = r"projects/[^/]+/regions/[^/]+/addresses/[^/]+"
        named(address, f"{field}.natIps", pattern, target.resources.exists)


ROUTER = ResourceKind("routers", "router", True, complete_router, router_users)
