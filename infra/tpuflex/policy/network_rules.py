"""Who reaches the hosts: external addresses, and firewall rules."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.planned import (
    GCP_TPUS,
    MACHINES,
    Planned,
    is_true,
    leaves,
    many,
    unknown,
)
from tpuflex.policy.violations import Breach
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


_TPUS = frozenset({QUEUED_RESOURCE, *GCP_TPUS})
#: By type: the input that says whether it faces the internet, which Google takes for EXTERNAL where
#: it is absent.
_FACING = {
    "gcp:compute/address:Address": "addressType",
    "gcp:compute/globalAddress:GlobalAddress": "addressType",
    "gcp:compute/forwardingRule:ForwardingRule": "loadBalancingScheme",
    "gcp:compute/globalForwardingRule:GlobalForwardingRule": "loadBalancingScheme",
}
#: How a rule, and a rule of a policy, names where something comes from, beside ranges.
_OTHER_SOURCES = ("sourceTags", "sourceServiceAccounts")
_OTHER_MATCHES = (
    "srcAddressGroups",
    "srcFqdns",
    "srcRegionCodes",
    "srcSecureTags",
    "srcNetworks",
    "srcThreatIntelligences",
)
_PRIVATE = "Leave it out and use `tpuflex tunnel`, or waive the rule with a reason."

FIREWALL = "gcp:compute/firewall:Firewall"
_POLICY_RULES = frozenset(
    {
        "gcp:compute/firewallPolicyRule:FirewallPolicyRule",
        "gcp:compute/networkFirewallPolicyRule:NetworkFirewallPolicyRule",
        "gcp:compute/regionNetworkFirewallPolicyRule:RegionNetworkFirewallPolicyRule",
    }
)


def external_addresses(planned: Planned) -> Iterator[Breach]:
    """What gives ``planned`` an address that the internet knows."""
    if planned.type in _TPUS:
        for path, value in leaves(planned.inputs):
            if path.rpartition(".")[2] not in ("externalIps", "enableExternalIps"):
                continue
            if unknown(value):
                yield Breach(f"{path} is known only after the update", _PRIVATE, advisory=True)
            elif is_true(value):
                yield Breach(f"{path} gives the hosts external addresses", _PRIVATE)
    if planned.type in MACHINES:
        for index, interface in enumerate(many(planned.inputs.get("networkInterfaces"))):
            if not isinstance(interface, Mapping):
                continue
            for key in ("accessConfigs", "ipv6AccessConfigs"):
                if many(interface.get(key)):
                    yield Breach(
                        f"networkInterfaces[{index}].{key} gives it an external address", _PRIVATE
                    )
    if (key := _FACING.get(planned.type, "")) and not unknown(planned.inputs.get(key)):
        kind = str(planned.inputs.get(key) or "EXTERNAL").upper()
        if kind.startswith("EXTERNAL"):
            given = (
                "" if planned.inputs.get(key) else ", which is what Google takes if it is absent"
            )
            yield Breach(f"its {key} is {kind}{given}", f'Write "INTERNAL". {_PRIVATE}')


@dataclass(frozen=True, slots=True)
class _Admission:
    """A firewall rule that lets something in.

    Attributes:
        ranges: where from; None if only the update finds out.
        other_sources: whether it names sources other than ranges.
        key: the input with the ranges.
    """

    ranges: tuple[str, ...] | None
    other_sources: bool
    key: str


def open_ingress(planned: Planned) -> Iterator[Breach]:
    """What lets the internet in."""
    admission = _admission(planned)
    if admission is None:
        return
    remedy = "Write the addresses of your clients, such as 203.0.113.7/32."
    if admission.ranges is None:
        yield Breach(f"{admission.key} is known only after the update", remedy, advisory=True)
        return
    if not admission.ranges and not admission.other_sources:
        yield Breach("it names no source, so it lets in every address", remedy)
        return
    reach = reach_of(admission.ranges)
    if reach.open:
        shown = ", ".join(admission.ranges[:4]) + (", …" if len(admission.ranges) > 4 else "")
        yield Breach(f"{shown} lets in the internet, or as good as all of it", remedy)
    for text in reach.unreadable:
        yield Breach(f"{text!r} cannot be read as a range, so nothing shows how wide it is", remedy)


def missing_targets(planned: Planned) -> Iterator[Breach]:
    """A rule for every host of its network."""
    if planned.type == FIREWALL:
        keys: tuple[str, ...] = ("targetTags", "targetServiceAccounts")
    elif planned.type in _POLICY_RULES:
        keys = ("targetSecureTags", "targetServiceAccounts")
    else:
        return
    if not any(many(planned.inputs.get(key)) for key in keys):
        yield Breach(
            "it names no target, so it is for every host of its network",
            f"Write {' or '.join(keys)}.",
        )


def _admission(planned: Planned) -> _Admission | None:
    """What ``planned`` lets in; None if it is no rule, or lets nothing in."""
    inputs = planned.inputs
    if is_true(inputs.get("disabled")) or _egress(inputs):
        return None
    if planned.type == FIREWALL:
        if not many(inputs.get("allows")):
            return None
        named = _any(inputs, _OTHER_SOURCES)
        return _Admission(_texts(inputs.get("sourceRanges")), named, "sourceRanges")
    if planned.type in _POLICY_RULES and str(inputs.get("action")).lower() != "deny":
        match = inputs.get("match")
        given = match if isinstance(match, Mapping) else {}
        ranges = None if unknown(match) else _texts(given.get("srcIpRanges"))
        return _Admission(ranges, _any(given, _OTHER_MATCHES), "match.srcIpRanges")
    return None


def _egress(inputs: Mapping[str, object]) -> bool:
    return str(inputs.get("direction") or "INGRESS").upper() == "EGRESS"


def _any(inputs: Mapping[str, object], keys: tuple[str, ...]) -> bool:
    return any(many(inputs.get(key)) for key in keys)


def _texts(value: object) -> tuple[str, ...] | None:
    """The entries of a list of texts; None if one of them is unknown."""
    entries = many(value)
    return None if any(map(unknown, entries)) else tuple(map(str, entries))
