"""Cloud Router and Cloud NAT. Properties as in pulumi-gcp 10.2.0, places as in compute v1.

Replacements and defaults: terraform-provider-google,
google/services/compute/resource_compute_{router,router_nat}.go.
"""

from __future__ import annotations

from embedded_cloud.gcp_plugin.call import compute_operation
from embedded_cloud.gcp_plugin.collection import Collection
from embedded_cloud.gcp_plugin.fields import Group, Groups, Property, Use
from embedded_cloud.gcp_plugin.properties import (
    CREATION_TIMESTAMP,
    DELETION_POLICY,
    NAME,
    NETWORK_LINK,
    PROJECT,
    REGION,
    SELF_LINK,
    SUBNETWORK_LINK,
    chosen,
)
from embedded_cloud.gcp_plugin.resource_type import Identity, ResourceType
from embedded_cloud.gcp_plugin.router_nat import RouterNats
from embedded_cloud.gcp_plugin.types import Flag, Number, Segment, Texts

ROUTER = ResourceType(
    token="gcp:compute/router:Router",  # noqa: S106
    title="Router",
    properties=(
        NAME,
        PROJECT,
        REGION,
        DELETION_POLICY,
        Property("network", NETWORK_LINK, immutable=True),
        Property("description"),
        Property("encryptedInterconnectRouter", Flag(), immutable=True),
        Property(
            "bgp",
            Group(
                (
                    Property("asn", Number(), Use.REQUIRED),
                    Property("advertiseMode", default="DEFAULT"),
                    Property("advertisedGroups", Texts()),
                    Property(
                        "advertisedIpRanges",
                        Groups((Property("range", use=Use.REQUIRED), Property("description"))),
                    ),
                    Property("identifierRange", use=Use.CHOSEN),
                    Property("keepaliveInterval", Number(), default=20),
                )
            ),
        ),
        CREATION_TIMESTAMP,
        SELF_LINK,
    ),
    identity=Identity(
        "projects/{project}/regions/{region}/routers/{name}",
        ("{project}/{region}/{name}", "{region}/{name}", "{name}"),
    ),
    behaviour=Collection(
        path="/compute/v1/projects/{project}/regions/{region}/routers",
        item="/compute/v1/projects/{project}/regions/{region}/routers/{name}",
        wait=compute_operation,
    ),
    autonamed="name",
    unserved=("md5AuthenticationKeys", "nccGateway", "params"),
)

ROUTER_NAT = ResourceType(
    token="gcp:compute/routerNat:RouterNat",  # noqa: S106
    title="RouterNat",
    properties=(
        NAME,
        PROJECT,
        REGION,
        DELETION_POLICY,
        Property("router", Segment(), Use.REQUIRED, immutable=True, wire=""),
        Property("sourceSubnetworkIpRangesToNat", use=Use.REQUIRED),
        chosen("autoNetworkTier"),
        Property("drainNatIps", Texts()),
        chosen("enableDynamicPortAllocation", Flag()),
        chosen("enableEndpointIndependentMapping", Flag()),
        Property("endpointTypes", Texts(ordered=True), use=Use.CHOSEN, immutable=True),
        Property("icmpIdleTimeoutSec", Number(), default=30),
        Property(
            "logConfig",
            Group(
                (
                    Property("enable", Flag(), Use.REQUIRED),
                    Property("filter", use=Use.REQUIRED),
                )
            ),
        ),
        Property("maxPortsPerVm", Number()),
        chosen("minPortsPerVm", Number()),
        Property("natIpAllocateOption"),
        Property("natIps", Texts()),
        Property(
            "subnetworks",
            Groups(
                (
                    Property("name", SUBNETWORK_LINK, Use.REQUIRED),
                    Property(
                        "sourceIpRangesToNats",
                        Texts(),
                        Use.REQUIRED,
                        wire="sourceIpRangesToNat",
                    ),
                    Property("secondaryIpRangeNames", Texts()),
                )
            ),
        ),
        Property("tcpEstablishedIdleTimeoutSec", Number(), default=1200),
        Property("tcpTimeWaitTimeoutSec", Number(), default=120),
        Property("tcpTransitoryIdleTimeoutSec", Number(), default=30),
        Property("type", immutable=True, default="PUBLIC"),
        Property("udpIdleTimeoutSec", Number(), default=30),
    ),
    identity=Identity(
        # Not the form of other compute resources (resource_compute_router_nat.go, SetId); the
        # other one is accepted, and was the stand-in's id before.
        "{project}/{region}/{router}/{name}",
        (
            "projects/{project}/regions/{region}/routers/{router}/{name}",
            "{region}/{router}/{name}",
            "{router}/{name}",
        ),
    ),
    behaviour=RouterNats(),
    autonamed="name",
    unserved=("initialNatIps", "nat64Subnetworks", "rules", "sourceSubnetworkIpRangesToNat64"),
)

TYPES = (ROUTER, ROUTER_NAT)
