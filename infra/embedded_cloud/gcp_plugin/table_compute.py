"""Networks, subnetworks and firewall rules. Names as in pulumi-gcp 10.2.0, places as in compute v1.

Which properties replace, and which defaults there are, is read from terraform-provider-google
(google/services/compute/resource_compute_{network,subnetwork,firewall}.go),
which the published plugin is built from.
"""

from __future__ import annotations

import ipaddress

from embedded_cloud.gcp_plugin.call import compute_operation
from embedded_cloud.gcp_plugin.collection import Collection, Step
from embedded_cloud.gcp_plugin.fields import (
    CREATION_TIMESTAMP,
    DELETION_POLICY,
    NAME,
    NETWORK_LINK,
    PROJECT,
    REGION,
    SELF_LINK,
    Group,
    Groups,
    Property,
    Use,
    chosen,
)
from embedded_cloud.gcp_plugin.resource_type import Identity, ResourceType
from embedded_cloud.gcp_plugin.types import Flag, InvalidValueError, Number, Text, Texts
from pulumi_plugin.values import Properties, Value

NETWORK = ResourceType(
    token="gcp:compute/network:Network",  # noqa: S106 - a type token
    title="Network",
    properties=(
        NAME,
        PROJECT,
        DELETION_POLICY,
        Property("autoCreateSubnetworks", Flag(), immutable=True, default=True),
        Property("description", immutable=True),
        chosen("routingMode", wire="routingConfig.routingMode"),
        chosen("bgpAlwaysCompareMed", Flag(), "routingConfig.bgpAlwaysCompareMed"),
        chosen("bgpBestPathSelectionMode", wire="routingConfig.bgpBestPathSelectionMode"),
        chosen("bgpInterRegionCost", wire="routingConfig.bgpInterRegionCost"),
        chosen("mtu", Number()),
        Property("enableUlaInternalIpv6", Flag()),
        Property("internalIpv6Range", use=Use.CHOSEN, immutable=True),
        Property("networkFirewallPolicyEnforcementOrder", default="AFTER_CLASSIC_FIREWALL"),
        Property("gatewayIpv4", use=Use.OUTPUT, wire="gatewayIPv4"),
        Property("networkId", use=Use.OUTPUT, wire="id"),
        Property("numericId", use=Use.OUTPUT, wire="id"),
        SELF_LINK,
    ),
    identity=Identity("projects/{project}/global/networks/{name}", ("{project}/{name}", "{name}")),
    behaviour=Collection(
        path="/compute/v1/projects/{project}/global/networks",
        item="/compute/v1/projects/{project}/global/networks/{name}",
        wait=compute_operation,
    ),
    autonamed="name",
    unserved=(
        "deleteBgpAlwaysCompareMed",
        "deleteDefaultRoutesOnCreate",
        "networkProfile",
        "params",
    ),
)


def _shrinks(old: Value, new: Value) -> bool:
    """A range can grow in place; every other change replaces the subnetwork."""
    try:
        before = ipaddress.ip_network(str(old))
        after = ipaddress.ip_network(str(new))
    except ValueError:
        return True
    if isinstance(before, ipaddress.IPv4Network) and isinstance(after, ipaddress.IPv4Network):
        return not before.subnet_of(after)
    return True


SUBNETWORK = ResourceType(
    token="gcp:compute/subnetwork:Subnetwork",  # noqa: S106
    title="Subnetwork",
    properties=(
        NAME,
        PROJECT,
        REGION,
        DELETION_POLICY,
        Property("network", NETWORK_LINK, Use.REQUIRED, immutable=True),
        Property("ipCidrRange", use=Use.CHOSEN),
        Property("description", immutable=True),
        Property("purpose", use=Use.CHOSEN, immutable=True),
        Property("role"),
        chosen("privateIpGoogleAccess", Flag()),
        chosen("privateIpv6GoogleAccess"),
        chosen("stackType"),
        Property("ipv6AccessType"),
        Property(
            "secondaryIpRanges",
            Groups((Property("rangeName", use=Use.REQUIRED), Property("ipCidrRange"))),
            use=Use.CHOSEN,
        ),
        Property(
            "logConfig",
            Group(
                (
                    Property("aggregationInterval", default="INTERVAL_5_SEC"),
                    Property("filterExpr", default="true"),
                    Property("flowSampling", Number(whole=False), default=0.5),
                    Property("metadata", default="INCLUDE_ALL_METADATA"),
                    Property("metadataFields", Texts()),
                ),
                switch="enable",
            ),
        ),
        CREATION_TIMESTAMP,
        Property("fingerprint", use=Use.OUTPUT),
        Property("gatewayAddress", use=Use.OUTPUT),
        Property("ipv6CidrRange", use=Use.OUTPUT),
        Property("ipv6GceEndpoint", use=Use.OUTPUT),
        Property("state", use=Use.OUTPUT),
        Property("subnetworkId", Number(), use=Use.OUTPUT, wire="id"),
        SELF_LINK,
    ),
    identity=Identity(
        "projects/{project}/regions/{region}/subnetworks/{name}",
        ("{project}/{region}/{name}", "{region}/{name}", "{name}"),
    ),
    behaviour=Collection(
        path="/compute/v1/projects/{project}/regions/{region}/subnetworks",
        item="/compute/v1/projects/{project}/regions/{region}/subnetworks/{name}",
        wait=compute_operation,
        steps=(
            Step(("ipCidrRange",), "POST", "/expandIpCidrRange"),
            Step(("privateIpGoogleAccess",), "POST", "/setPrivateIpGoogleAccess"),
            Step(lock="fingerprint"),
        ),
    ),
    autonamed="name",
    replaces_when={"ipCidrRange": _shrinks},
    unserved=(
        "allowSubnetCidrRoutesOverlap",
        "externalIpv6Prefix",
        "internalIpv6Prefix",
        "ipCollection",
        "params",
        "reservedInternalRange",
        "resolveSubnetMask",
        "sendSecondaryIpRangeIfEmpty",
    ),
)

_RULE = Groups(
    (
        Property("protocol", Text(fold=True), Use.REQUIRED, wire="IPProtocol"),
        Property("ports", Texts()),
    )
)

_SOURCES = ("sourceRanges", "sourceTags", "sourceServiceAccounts")


def _has_source(inputs: Properties) -> InvalidValueError | None:
    if inputs.get("direction") == "EGRESS" or any(name in inputs for name in _SOURCES):
        return None
    return InvalidValueError(
        "sourceRanges",
        "one of sourceTags, sourceRanges, or sourceServiceAccounts must be defined",
    )


def _allows_or_denies(inputs: Properties) -> InvalidValueError | None:
    if ("allows" in inputs) != ("denies" in inputs):
        return None
    return InvalidValueError("allows", "exactly one of allows and denies must be specified")


FIREWALL = ResourceType(
    token="gcp:compute/firewall:Firewall",  # noqa: S106
    title="Firewall",
    properties=(
        NAME,
        PROJECT,
        DELETION_POLICY,
        Property("network", NETWORK_LINK, Use.REQUIRED),
        Property("allows", _RULE, wire="allowed"),
        Property("denies", _RULE, wire="denied"),
        Property("description"),
        Property("destinationRanges", Texts(), use=Use.CHOSEN),
        Property("direction", use=Use.CHOSEN, immutable=True),
        Property("disabled", Flag()),
        Property("logConfig", Group((Property("metadata", use=Use.REQUIRED),), switch="enable")),
        Property("priority", Number(), default=1000),
        Property("sourceRanges", Texts()),
        Property("sourceServiceAccounts", Texts()),
        Property("sourceTags", Texts()),
        Property("targetServiceAccounts", Texts()),
        Property("targetTags", Texts()),
        CREATION_TIMESTAMP,
        SELF_LINK,
    ),
    identity=Identity("projects/{project}/global/firewalls/{name}", ("{project}/{name}", "{name}")),
    behaviour=Collection(
        path="/compute/v1/projects/{project}/global/firewalls",
        item="/compute/v1/projects/{project}/global/firewalls/{name}",
        wait=compute_operation,
    ),
    autonamed="name",
    rules=(_has_source, _allows_or_denies),
    unserved=("enableLogging", "params"),
)

TYPES = (NETWORK, SUBNETWORK, FIREWALL)
