"""Rules of VPC networks (custom mode) and their subnetworks."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from itertools import chain

from embedded_cloud.compute.errors import invalid, required
from embedded_cloud.compute.locations import region_of
from embedded_cloud.compute.paths import named
from embedded_cloud.compute.state import ResourceKind, Target, check_unchanged, fingerprint
from embedded_cloud.errors import CloudError, unimplemented
from embedded_cloud.json_types import JsonObject, child, children, flag, number, text

NETWORK_PATTERN = r"projects/[^/]+/global/networks/[^/]+"

_NETWORK_FIXED = ("autoCreateSubnetworks", "enableUlaInternalIpv6")
_SUBNETWORK_FIXED = ("network", "ipCidrRange", "purpose")


def complete_network(_target: Target, asked: JsonObject, before: JsonObject | None) -> JsonObject:
    """A network as Compute fills it in."""
    if asked.get("IPv4Range"):
        raise invalid("resource.IPv4Range", asked["IPv4Range"], "Legacy networks are deprecated.")
    if flag(asked, "autoCreateSubnetworks", True):
        # An auto mode network would need a subnetwork in every region.
        raise unimplemented("networks with autoCreateSubnetworks; set it to false (custom mode)")
    mtu = int(number(asked, "mtu", 1460))
    if not 1300 <= mtu <= 8896:
        raise invalid("resource.mtu", mtu, "Must be between 1300 and 8896.")
    check_unchanged(before, asked, _NETWORK_FIXED, "It cannot be changed.")
    return {
        **asked,
        "autoCreateSubnetworks": False,
        "mtu": mtu,
        "routingConfig": {
            "routingMode": "REGIONAL",
            "bgpBestPathSelectionMode": "LEGACY",
            **child(asked, "routingConfig"),
        },
        "networkFirewallPolicyEnforcementOrder": text(
            asked, "networkFirewallPolicyEnforcementOrder", "AFTER_CLASSIC_FIREWALL"
        ),
    }


def network_users(target: Target) -> Iterable[str]:
    """Everything in the network."""
    project = target.scope.project
    lists = (
        target.resources.users(collection, project, "network", target.path)
        for collection in ("firewalls", "routers", "subnetworks", "addresses")
    )
    return chain(*lists, _nodes(target, "network"))


def complete_subnetwork(target: Target, asked: JsonObject, before: JsonObject | None) -> JsonObject:
    """A subnetwork as Compute fills it in."""
    network = text(asked, "network")
    if not network:
        raise required("resource.network")
    named(network, "resource.network", NETWORK_PATTERN, target.resources.exists)
    primary = _range(text(asked, "ipCidrRange"), "resource.ipCidrRange")
    check_unchanged(before, asked, _SUBNETWORK_FIXED, "It cannot be changed.")
    _check_overlap(target, network, asked)
    resource: JsonObject = {
        "privateIpGoogleAccess": False,
        "privateIpv6GoogleAccess": "DISABLE_GOOGLE_ACCESS",
        "purpose": "PRIVATE",
        "stackType": "IPV4_ONLY",
        **asked,
        "logConfig": _log_config(asked),
        "region": target.scope.path,
        "gatewayAddress": str(primary.network_address + 1),
    }
    resource["enableFlowLogs"] = flag(child(resource, "logConfig"), "enable")
    resource["fingerprint"] = fingerprint(resource)
    return resource


def subnetwork_users(target: Target) -> Iterable[str]:
    """Reserved addresses, routers that translate for it, and TPU nodes in it."""
    project = target.scope.project
    addresses = target.resources.users("addresses", project, "subnetwork", target.path)
    return chain(addresses, _translating_routers(target), _nodes(target, "subnetwork"))


def _translating_routers(target: Target) -> Iterator[str]:
    for router in target.resources.all("routers", f"{target.scope.path}/"):
        for nat in children(router, "nats"):
            if any(text(each, "name") == target.path for each in children(nat, "subnetworks")):
                yield text(router, "selfLink")


def _nodes(target: Target, field: str) -> Iterator[str]:
    """TPU nodes attached to the resource: their machines have addresses in it."""
    for name, node in target.resources.store.list("tpu/nodes"):
        spec = child(node, "spec")
        configs = [child(spec, "networkConfig"), *children(spec, "networkConfigs")]
        near = not target.scope.region or region_of(text(node, "zone")) == target.scope.region
        if any(target.path in _attachments(target, text(each, field), near) for each in configs):
            yield name


def _attachments(target: Target, value: str, near: bool) -> tuple[str, ...]:
    """The paths that a node's network or subnetwork field may mean; a bare name only if the node is
    ``near``, in the region of the resource."""
    if not value:
        return ()
    project = target.scope.project
    _, separator, tail = value.partition("projects/")
    if separator:
        return (f"projects/{tail}",)
    named = (f"{target.path.rpartition('/')[0]}/{value}",) if near else ()
    return (f"projects/{project}/{value}", *named)


def _log_config(asked: JsonObject) -> JsonObject:
    config = child(asked, "logConfig")
    if not flag(config, "enable"):
        return {"enable": False}
    return {
        "aggregationInterval": "INTERVAL_5_SEC",
        "flowSampling": 0.5,
        "metadata": "EXCLUDE_ALL_METADATA",
        **config,
    }


def _range(cidr: str, field: str) -> ipaddress.IPv4Network:
    if not cidr:
        raise required(field)
    try:
        network = ipaddress.IPv4Network(cidr)
    except ValueError as error:
        raise invalid(field, cidr, f"Must be a CIDR address range: {error}.") from error
    if network.prefixlen > 29:
        raise invalid(field, cidr, "The primary range must be /29 or larger.")
    return network


def _ranges(subnetwork: JsonObject) -> list[ipaddress.IPv4Network]:
    secondary = children(subnetwork, "secondaryIpRanges")
    fields = [(text(subnetwork, "ipCidrRange"), "resource.ipCidrRange")]
    fields += [
        (text(each, "ipCidrRange"), f"resource.secondaryIpRanges[{index}].ipCidrRange")
        for index, each in enumerate(secondary)
    ]
    return [_range(cidr, field) for cidr, field in fields]


def _check_overlap(target: Target, network: str, asked: JsonObject) -> None:
    mine = _ranges(asked)
    for other in target.resources.all("subnetworks", f"projects/{target.scope.project}/"):
        if text(other, "network") != network or text(other, "selfLink") == target.path:
            continue
        for taken in _ranges(other):
            for candidate in mine:
                if candidate.overlaps(taken):
                    region = text(other, "region").rpartition("/")[2]
                    raise CloudError(
                        400,
                        "INVALID_ARGUMENT",
                        f"Invalid IPCidrRange: {candidate} conflicts with existing subnetwork "
                        f"'{text(other, 'name')}' in region '{region}'.",
                        legacy_reason="invalidResourceUsage",
                    )


NETWORK = ResourceKind("networks", "network", False, complete_network, network_users)
SUBNETWORK = ResourceKind(
    "subnetworks",
    "subnetwork",
    True,
    complete_subnetwork,
    subnetwork_users,
    needs_fingerprint=True,
)
