"""Where the hosts may connect to: Google's APIs and nothing else, or the internet through NAT.

Private Google Access through ``private.googleapis.com``, as
https://cloud.google.com/vpc/docs/configure-private-google-access documents it: names of Google's
APIs and registries resolve to four addresses that only Google's network has, and the firewall lets
the hosts connect to these and to nothing else. The metadata server, which is their name and time
server too, is not subject to firewall rules
(https://cloud.google.com/firewall/docs/firewalls#alwaysallowed).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass

import pulumi
from pulumi_gcp import compute, dns

from tpuflex.components.ownership import description, labels
from tpuflex.naming import DNS_ZONE_ROLES, EGRESS_RULE_ROLES, Names

#: Addresses of private.googleapis.com; announced in Google's network only.
PRIVATE_RANGE = "199.36.153.8/30"

#: By role of a zone: its domain, and the name in it that has the addresses.
DOMAINS = dict(
    zip(
        DNS_ZONE_ROLES,
        (
            ("googleapis.com.", "private.googleapis.com."),
            ("gcr.io.", "gcr.io."),
            ("pkg.dev.", "pkg.dev."),
        ),
        strict=True,
    )
)

_TTL_S = 300
#: A rule added with the default priority, 1000, does not outdo a denial of the same.
_ALLOW_PRIORITY = 900
_DENY_PRIORITY = 1000


@dataclass(frozen=True, kw_only=True)
class EgressArgs:
    """What the ways out are made for.

    Attributes:
        name: logical name of the network component.
        names: physical names.
        state_id: id of the state that makes them.
        project: Google Cloud project id.
        region: region of the subnetwork.
        further: other regions with a subnetwork.
        network_id: id of the VPC.
        tag: network tag of the hosts.
        labels: labels of the user's.
        parent: the network component.
    """

    name: str
    names: Names
    state_id: pulumi.Input[str]
    project: str
    region: str
    network_id: pulumi.Input[str]
    tag: str
    labels: pulumi.Input[Mapping[str, str]] | None
    parent: pulumi.Resource
    further: tuple[str, ...] = ()


def in_region(region: str, home: str) -> str:
    """What the logical name of something in ``region`` ends with; nothing in the stack's home."""
    return "" if region == home else f"-{region}"


def to_google(args: EgressArgs) -> tuple[pulumi.Resource, ...]:
    """Egress to Google's private range only."""
    return (*_rules(args), *_zones(args))


def to_internet(
    args: EgressArgs, *, only: pulumi.Input[str] | None = None
) -> tuple[pulumi.Resource, ...]:
    """Egress to everywhere, through NAT in every region.

    Args:
        args: what it is made for.
        only: the subnetwork that it is for; all of the network in the region by default.
    """
    return tuple(_nat(args, only, region) for region in (args.region, *args.further))


def _nat(args: EgressArgs, only: pulumi.Input[str] | None, region: str) -> pulumi.Resource:
    ending = in_region(region, args.region)
    # A router cannot change its network: who moves gets another before the old one goes.
    prefix = "brought-" if only is not None else ""
    router = compute.Router(
        f"{args.name}-{prefix}router{ending}",
        name=args.names.compute(f"{prefix}router"),
        project=args.project,
        description=description(args.names, args.state_id),
        region=region,
        network=args.network_id,
        opts=pulumi.ResourceOptions(parent=args.parent),
    )
    return compute.RouterNat(
        f"{args.name}-{prefix}nat{ending}",
        name=args.names.compute(f"{prefix}nat"),
        project=args.project,
        region=region,
        router=router.name,
        nat_ip_allocate_option="AUTO_ONLY",
        source_subnetwork_ip_ranges_to_nat="LIST_OF_SUBNETWORKS"
        if only is not None
        else "ALL_SUBNETWORKS_ALL_IP_RANGES",
        subnetworks=[
            compute.RouterNatSubnetworkArgs(name=only, source_ip_ranges_to_nats=["ALL_IP_RANGES"])
        ]
        if only is not None
        else None,
        log_config=compute.RouterNatLogConfigArgs(enable=True, filter="ERRORS_ONLY"),
        opts=pulumi.ResourceOptions(parent=args.parent),
    )


def _rules(args: EgressArgs) -> tuple[compute.Firewall, ...]:
    allow, deny, deny_v6 = EGRESS_RULE_ROLES
    return (
        _rule(args, allow, PRIVATE_RANGE),
        # One rule has ranges of one IP version
        # (https://cloud.google.com/firewall/docs/firewalls#sources_or_destinations_for_the_rule).
        _rule(args, deny, "0.0.0.0/0"),
        _rule(args, deny_v6, "::/0"),
    )


def _rule(args: EgressArgs, role: str, destination: str) -> compute.Firewall:
    allowed = destination == PRIVATE_RANGE
    return compute.Firewall(
        f"{args.name}-{role}",
        name=args.names.compute(role),
        project=args.project,
        description=description(args.names, args.state_id),
        network=args.network_id,
        direction="EGRESS",
        priority=_ALLOW_PRIORITY if allowed else _DENY_PRIORITY,
        destination_ranges=[destination],
        target_tags=[args.tag],
        allows=[compute.FirewallAllowArgs(protocol="tcp", ports=["443"])] if allowed else None,
        denies=None if allowed else [compute.FirewallDenyArgs(protocol="all")],
        # What is denied is what nothing of ours would try: it is logged.
        log_config=None
        if allowed
        else compute.FirewallLogConfigArgs(metadata="INCLUDE_ALL_METADATA"),
        opts=pulumi.ResourceOptions(parent=args.parent),
    )


def _zones(args: EgressArgs) -> tuple[pulumi.Resource, ...]:
    return tuple(
        resource
        for role, (domain, addressed) in DOMAINS.items()
        for resource in _zone(args, role, domain, addressed)
    )


def _zone(args: EgressArgs, role: str, domain: str, addressed: str) -> tuple[pulumi.Resource, ...]:
    """The private zone of ``domain``: every name in it has the addresses of ``addressed``."""
    child = pulumi.ResourceOptions(parent=args.parent)
    zone = dns.ManagedZone(
        f"{args.name}-{role}",
        name=args.names.compute(role),
        project=args.project,
        dns_name=domain,
        description=description(args.names, args.state_id),
        labels=labels(args.names, args.state_id, args.labels),
        visibility="private",
        private_visibility_config=dns.ManagedZonePrivateVisibilityConfigArgs(
            networks=[
                dns.ManagedZonePrivateVisibilityConfigNetworkArgs(network_url=args.network_id)
            ]
        ),
        # A record that a killed run left would keep the zone, and the network that it is bound to.
        force_destroy=True,
        opts=child,
    )
    addresses = dns.RecordSet(
        f"{args.name}-{role}-addresses",
        project=args.project,
        managed_zone=zone.name,
        name=addressed,
        type="A",
        ttl=_TTL_S,
        rrdatas=[str(address) for address in ipaddress.ip_network(PRIVATE_RANGE)],
        opts=child,
    )
    names = dns.RecordSet(
        f"{args.name}-{role}-names",
        project=args.project,
        managed_zone=zone.name,
        name=f"*.{domain}",
        type="CNAME",
        ttl=_TTL_S,
        rrdatas=[addressed],
        opts=child,
    )
    return zone, addresses, names
