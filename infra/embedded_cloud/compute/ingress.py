"""Whether the firewall of a network lets a connection in to a host, a pure function of its rules.

https://cloud.google.com/firewall/docs/firewalls#priority_order_for_firewall_rules
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from embedded_cloud.compute.paths import relative
from embedded_cloud.json_types import JsonObject, children, number, text, texts

_TCP = frozenset({"tcp", "6", "all"})


@dataclass(frozen=True, slots=True)
class Connection:
    """A TCP connection to a host.

    Attributes:
        source: the range that it comes from.
        port: the port that it is for.
        network: path of the host's network, from ``projects/`` on.
        tags: the host's network tags.
        service_account: the host's service account.
    """

    source: str
    port: int
    network: str
    tags: Collection[str]
    service_account: str


def lets_in(rules: Iterable[JsonObject], connection: Connection) -> bool:
    """Whether the rule that decides allows ``connection``: of those that match the one of the
    lowest priority number, a denying one before an allowing one. Without any it is denied."""
    matching = [rule for rule in rules if _matches(rule, connection)]
    first = min(
        matching, key=lambda rule: (number(rule, "priority", 1000), "allowed" in rule), default=None
    )
    return first is not None and "allowed" in first


def _matches(rule: JsonObject, connection: Connection) -> bool:
    project = connection.network.split("/")[1]
    return (
        rule.get("disabled") is not True
        and text(rule, "direction", "INGRESS") == "INGRESS"
        and relative(text(rule, "network"), project) == connection.network
        and _targets(rule, connection)
        and any(_covers(each, connection.source) for each in texts(rule, "sourceRanges"))
        and any(
            _has_port(each, connection.port)
            for key in ("allowed", "denied")
            for each in children(rule, key)
        )
    )


def _targets(rule: JsonObject, connection: Connection) -> bool:
    tags, accounts = texts(rule, "targetTags"), texts(rule, "targetServiceAccounts")
    if not tags and not accounts:
        return True
    return bool(set(tags) & set(connection.tags)) or connection.service_account in accounts


def _covers(cidr: str, source: str) -> bool:
    wide, narrow = ipaddress.ip_network(cidr), ipaddress.ip_network(source)
    if isinstance(wide, ipaddress.IPv6Network) or isinstance(narrow, ipaddress.IPv6Network):
        return False
    return narrow.subnet_of(wide)


def _has_port(entry: JsonObject, port: int) -> bool:
    if text(entry, "IPProtocol").lower() not in _TCP:
        return False
    ports = texts(entry, "ports")
    return not ports or any(_in(each, port) for each in ports)


def _in(ports: str, port: int) -> bool:
    first, _, last = ports.partition("-")
    return int(first) <= port <= int(last or first)
