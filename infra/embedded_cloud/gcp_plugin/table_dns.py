"""Cloud DNS types. Properties as in pulumi-gcp 10.2.0, places as in dns v1.

Replacements and defaults: terraform-provider-google,
google/services/dns/resource_dns_{managed_zone,record_set}.go.

A record set that exists is replaced by a create, and one that is gone, or whose zone is, is no
error of a delete. To the API, record sets are additions and deletions of a change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonObject, JsonValue, children, text
from embedded_cloud.gcp_plugin.call import CloudCall, failing_with, unless_gone
from embedded_cloud.gcp_plugin.collection import Collection
from embedded_cloud.gcp_plugin.fields import (
    DELETION_POLICY,
    NAME,
    PROJECT,
    Group,
    Groups,
    Property,
    Use,
    write,
)
from embedded_cloud.gcp_plugin.resource_type import (
    Identity,
    Made,
    ManagedMap,
    ResourceType,
    creation_of,
    require_created,
    scope_of,
)
from embedded_cloud.gcp_plugin.states import NO_DEFAULTS, identified, known_after, located, state_of
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
from pulumi_plugin.values import Properties, Value
from tpuflex.errors import ApiError

_OWN_TYPES = ("NS", "SOA")


@dataclass(frozen=True, slots=True)
class RecordSets:
    """The record sets of managed zones."""

    def create(self, row: ResourceType, inputs: Properties, call: CloudCall) -> Made:
        """Add the record set to its zone, in place of one with its name and type."""
        values = located(row, inputs, call.settings)
        values = values | {"managedZone": text(values, "managedZone").rsplit("/", 1)[-1]}
        made = identified(row, values, call.settings)
        path = _zone_path(row, made)
        added = write(row.properties, values, scope_of(values))
        with failing_with(f"Error retrieving record sets for {text(values, 'managedZone')!r}"):
            there = _all(path, call, added)
        with failing_with(f"Error creating {row.title}"):
            answer = _change(path, call, [added], there)
        with creation_of(made):
            wait(path, call, answer)
        return require_created(row.title, made, self.read(row, made, call))

    def read(self, row: ResourceType, made: Made, call: CloudCall) -> Made | None:
        """The present state, or ``None`` when the record set or its zone is gone."""
        found = self._present(row, made, call)
        return None if found is None else Made(made.id, state_of(row, made.id, made.state, found))

    def update(
        self, row: ResourceType, made: Made, inputs: Properties, call: CloudCall
    ) -> Properties:
        """Delete what was and add what is wanted, in one change."""
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        before = write(row.properties, made.state, scope_of(made.state))
        after = write(row.properties, {**made.state, **inputs, **parts}, scope_of(made.state))
        path = _zone_path(row, made)
        if after != before:
            with failing_with(f"Error changing {row.title}"):
                wait(path, call, _change(path, call, [after], [before]))
        known = known_after(row, made.state, inputs, call.settings)
        present = self.read(row, Made(made.id, known), call)
        if present is None:
            raise ApiError(f"{row.title} {made.id!r} does not exist", status=404)
        return present.state

    def delete(self, row: ResourceType, made: Made, call: CloudCall) -> None:
        """Delete the record set, unless it is gone; a zone's own NS and SOA stay."""
        path = _zone_path(row, made)
        deleted = write(row.properties, made.state, scope_of(made.state))
        if deleted["type"] in _OWN_TYPES:
            zone = call.request("GET", path)
            if zone.get("dnsName") == deleted["name"]:
                return
        answer = unless_gone(
            f"Error deleting {row.title}", lambda: _change(path, call, [], [deleted])
        )
        if answer is not None:
            wait(path, call, answer)

    def _present(self, row: ResourceType, made: Made, call: CloudCall) -> JsonObject | None:
        parts = row.identity.parse(made.id, NO_DEFAULTS)
        query = {"name": parts["name"], "type": parts["type"]}
        answer = unless_gone(
            f"Error when reading or editing {row.title} {made.id!r}",
            lambda: call.request("GET", f"{_zone_path(row, made)}/rrsets", query=query),
        )
        return next(iter(children(answer or {}, "rrsets")), None)


def empty_zone(made: Made, call: CloudCall) -> None:
    """Delete every record set of a zone but its own, if the program allows it (forceDestroy)."""
    if made.state.get("forceDestroy") is not True:
        return
    path = f"/dns/v1/{made.id}"
    listed = unless_gone("Error reading ResourceRecordSets", lambda: _all(path, call))
    own = text(made.state, "dnsName")
    for one in listed or []:
        if one["type"] == "SOA" or (one["type"] == "NS" and one["name"] == own):
            continue
        with failing_with("Unable to delete ResourceRecordSets"):
            wait(path, call, _change(path, call, [], [one]))


def wait(path: str, call: CloudCall, change: JsonObject) -> None:
    """Poll a change of the zone at ``path`` until it is done."""
    pauses = call.waiter.pauses("Google DNS change")
    while text(change, "status") != "done":
        next(pauses)
        change = call.request("GET", f"{path}/changes/{text(change, 'id')}")


def _zone_path(row: ResourceType, made: Made) -> str:
    parts = row.identity.parse(made.id, NO_DEFAULTS)
    return "/dns/v1/projects/{project}/managedZones/{managedZone}".format_map(parts)


def _all(path: str, call: CloudCall, like: JsonObject | None = None) -> list[JsonObject]:
    """The record sets of the zone at ``path``; only those with the name and type of ``like``."""
    found: list[JsonObject] = []
    token = ""
    while True:
        query = {"pageToken": token} if token else None
        page = call.request("GET", f"{path}/rrsets", query=query)
        found += [
            one
            for one in children(page, "rrsets")
            if like is None or (one["name"], one["type"]) == (like["name"], like["type"])
        ]
        token = text(page, "nextPageToken")
        if not token:
            return found


def _change(
    path: str, call: CloudCall, additions: Sequence[JsonValue], deletions: Sequence[JsonValue]
) -> JsonObject:
    body: JsonObject = {}
    if additions:
        body["additions"] = [*additions]
    if deletions:
        body["deletions"] = [*deletions]
    return call.request("POST", f"{path}/changes", body=body)


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
