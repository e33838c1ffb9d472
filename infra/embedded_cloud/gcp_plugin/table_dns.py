"""Cloud DNS types. Properties as in pulumi-gcp 10.2.0, places as in dns v1.

Replacements and defaults: terraform-provider-google,
google/services/dns/resource_dns_{managed_zone,record_set}.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from embedded_cloud.gcp_plugin.collection import Collection
from embedded_cloud.gcp_plugin.fields import Group, Groups, Property, Use
from embedded_cloud.gcp_plugin.properties import DELETION_POLICY, NAME, PROJECT
from embedded_cloud.gcp_plugin.record_sets import RecordSets, empty_zone
from embedded_cloud.gcp_plugin.resource_type import Identity, ManagedMap, ResourceType
from embedded_cloud.gcp_plugin.types import (
    Flag,
    InvalidValueError,
    Number,
    Reference,
    Scope,
    Segment,
    Text,
    TextMap,
    Texts,
)
from embedded_cloud.json_types import JsonValue
from pulumi_plugin.values import Properties, Value

_COMPUTE = "https://www.googleapis.com/compute/v1/"


@dataclass(frozen=True, slots=True)
class _Link(Reference):
    """The name, path or link of a network; Cloud DNS takes and answers the whole link."""

    def to_wire(self, value: Value, scope: Scope) -> JsonValue:
        """The link."""
        path = Reference.to_wire(self, value, scope)
        return f"{_COMPUTE}{path}" if path else ""


_NETWORKS = Groups(
    (Property("networkUrl", _Link(path="projects/{project}/global/networks/{}"), use=Use.REQUIRED),)
)

MANAGED_ZONE = ResourceType(
    token="gcp:dns/managedZone:ManagedZone",  # noqa: S106 - a type token
    title="ManagedZone",
    properties=(
        NAME,
        PROJECT,
        DELETION_POLICY,
        Property("dnsName", use=Use.REQUIRED, immutable=True),
        Property("description", default="Managed by Pulumi"),
        Property("visibility", Text(fold=True), immutable=True, default="public"),
        Property("forceDestroy", Flag(), default=False, wire=""),
        Property("labels", TextMap()),
        Property(
            "privateVisibilityConfig",
            Group(
                (
                    Property("networks", _NETWORKS),
                    Property(
                        "gkeClusters", Groups((Property("gkeClusterName", use=Use.REQUIRED),))
                    ),
                )
            ),
        ),
        Property(
            "cloudLoggingConfig",
            Group((Property("enableLogging", Flag(), Use.REQUIRED),)),
            use=Use.CHOSEN,
        ),
        Property("creationTime", use=Use.OUTPUT),
        Property("managedZoneId", Number(), use=Use.OUTPUT, wire="id"),
        Property("nameServers", Texts(ordered=True), use=Use.OUTPUT),
        Property("effectiveLabels", TextMap(), use=Use.OUTPUT, wire=""),
        Property("pulumiLabels", TextMap(), use=Use.OUTPUT, wire=""),
    ),
    identity=Identity("projects/{project}/managedZones/{name}", ("{project}/{name}", "{name}")),
    behaviour=Collection(
        path="/dns/v1/projects/{project}/managedZones",
        item="/dns/v1/projects/{project}/managedZones/{name}",
        guard=empty_zone,
    ),
    autonamed="name",
    maps=(ManagedMap("labels", "effectiveLabels", "pulumiLabels", removes_by_null=True),),
    unserved=(
        "dnssecConfig",
        "forwardingConfig",
        "peeringConfig",
        "reverseLookup",
        "serviceDirectoryConfig",
    ),
)


def _has_data(inputs: Properties) -> InvalidValueError | None:
    if inputs.get("rrdatas"):
        return None
    return InvalidValueError(
        "rrdatas", "one of rrdatas and routingPolicy must be specified; only rrdatas is served"
    )


def _ends_in_a_dot(inputs: Properties) -> InvalidValueError | None:
    name = inputs.get("name")
    if not isinstance(name, str) or name.endswith("."):
        return None
    return InvalidValueError("name", f"{name!r} doesn't end with a trailing dot")


RECORD_SET = ResourceType(
    token="gcp:dns/recordSet:RecordSet",  # noqa: S106
    title="DNS RecordSet",
    properties=(
        Property("name", use=Use.REQUIRED, immutable=True),
        # The published plugin changes the type in place, and with it the id, which the engine
        # does not learn: here it replaces.
        Property("type", use=Use.REQUIRED, immutable=True),
        Property("managedZone", Segment(), Use.REQUIRED, immutable=True, wire=""),
        PROJECT,
        DELETION_POLICY,
        Property("rrdatas", Texts()),
        Property("ttl", Number()),
    ),
    identity=Identity(
        "projects/{project}/managedZones/{managedZone}/rrsets/{name}/{type}",
        ("{project}/{managedZone}/{name}/{type}", "{managedZone}/{name}/{type}"),
    ),
    behaviour=RecordSets(),
    rules=(_has_data, _ends_in_a_dot),
    unserved=("routingPolicy",),
)

TYPES = (MANAGED_ZONE, RECORD_SET)
