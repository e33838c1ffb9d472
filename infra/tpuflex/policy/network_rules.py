"""Who reaches the hosts: external addresses, and firewall rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.policy.finding import Breach
from tpuflex.policy.planned import (
    GCP_TPUS,
    MACHINES,
    Planned,
    leaves,
    many,
    switched_on,
    unknown,
)
from tpuflex.policy.ranges import reach_of

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
            elif switched_on(value):
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
    if switched_on(inputs.get("disabled")) or _egress(inputs):
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
