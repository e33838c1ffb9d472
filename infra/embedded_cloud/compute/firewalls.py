"""Rules of VPC firewalls."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from embedded_cloud.compute.errors import invalid, required
from embedded_cloud.compute.networks import NETWORK_PATTERN
from embedded_cloud.compute.paths import named
from embedded_cloud.compute.state import ResourceKind, Target, check_unchanged
from embedded_cloud.json_types import (
    JsonObject,
    JsonValue,
    child,
    children,
    number,
    text,
    texts,
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
