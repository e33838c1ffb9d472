"""Networks, subnetworks, firewall rules, addresses (IPv4 only) and routers: what each may be."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from embedded_cloud.core.errors import CloudError, unimplemented
from embedded_cloud.core.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    flag,
    number,
    text,
    texts,
)
from embedded_cloud.services.compute.errors import invalid, required, violated
from embedded_cloud.services.compute.paths import named, region_of
from embedded_cloud.services.compute.state import (
    ResourceKind,
    Target,
    check_name,
    check_unchanged,
    fingerprint,
)

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


_PORTED = {"tcp", "udp", "sctp", "6", "17", "132", "all"}


def complete_firewall(target: Target, asked: JsonObject, before: JsonObject | None) -> JsonObject:
    """A firewall rule as Compute fills it in."""
    network = text(asked, "network") or f"projects/{target.scope.project}/global/networks/default"
    named(network, "resource.network", NETWORK_PATTERN, target.resources.exists)
    allowed, denied = children(asked, "allowed"), children(asked, "denied")
    if bool(allowed) == bool(denied):
        raise invalid("resource.allowed", "", "Exactly one of allowed and denied must be set.")
    direction = text(asked, "direction", "INGRESS")
    resource: JsonObject = {
        "disabled": False,
        **asked,
        "network": network,
        "direction": direction,
        "priority": _priority(asked),
        "logConfig": child(asked, "logConfig") or {"enable": False},
    }
    key = "allowed" if allowed else "denied"
    resource[key] = [_protocol(each, f"resource.{key}") for each in allowed or denied]
    _check_sources(asked, direction)
    if direction == "INGRESS":
        named_sources = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
        if not any(asked.get(field) for field in named_sources):
            resource["sourceRanges"] = ["0.0.0.0/0"]
    elif not asked.get("destinationRanges"):
        resource["destinationRanges"] = ["0.0.0.0/0"]
    check_unchanged(before, resource, ("network", "direction"), "It cannot be changed.")
    return resource


def firewall_users(_target: Target) -> Iterable[str]:
    """Nothing uses a firewall rule."""
    return ()


def _priority(asked: JsonObject) -> int:
    priority = int(number(asked, "priority", 1000))
    if not 0 <= priority <= 65535:
        raise invalid("resource.priority", priority, "Must be between 0 and 65535.")
    return priority


def _check_sources(asked: JsonObject, direction: str) -> None:
    for field in ("sourceRanges", "destinationRanges"):
        for cidr in texts(asked, field):
            try:
                ipaddress.ip_network(cidr)
            except ValueError as error:
                raise invalid(
                    f"resource.{field}", cidr, f"Must be a CIDR range: {error}."
                ) from error
        versions = {ipaddress.ip_network(cidr).version for cidr in texts(asked, field)}
        if len(versions) > 1:
            raise invalid(
                f"resource.{field}",
                ", ".join(texts(asked, field)),
                "IPv4 and IPv6 ranges cannot be mixed in one rule.",
            )
    ingress_only = ("sourceRanges", "sourceTags", "sourceServiceAccounts")
    wrong = ingress_only[1:] if direction == "EGRESS" else ()
    for field in wrong:
        if asked.get(field):
            raise invalid(f"resource.{field}", asked[field], "Not allowed in an EGRESS rule.")
    if (asked.get("sourceServiceAccounts") or asked.get("targetServiceAccounts")) and (
        asked.get("sourceTags") or asked.get("targetTags")
    ):
        raise invalid(
            "resource.targetServiceAccounts",
            asked.get("targetServiceAccounts"),
            "Service accounts and tags cannot be mixed in one rule.",
        )


def _protocol(entry: JsonObject, field: str) -> JsonValue:
    protocol = text(entry, "IPProtocol").lower()
    if not protocol:
        raise required(f"{field}.IPProtocol")
    ports = texts(entry, "ports")
    if ports and protocol not in _PORTED:
        raise invalid(f"{field}.ports", ports[0], f"Protocol {protocol} has no ports.")
    for port in ports:
        first, _, last = port.partition("-")
        numbers = [first, last or first]
        if not all(each.isdecimal() and int(each) <= 65535 for each in numbers):
            raise invalid(f"{field}.ports", port, "Must be a port or a range of ports.")
    return {**entry, "IPProtocol": protocol}


FIREWALL = ResourceKind("firewalls", "firewall", False, complete_firewall, firewall_users)


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
