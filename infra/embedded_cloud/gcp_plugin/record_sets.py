"""Record sets of Cloud DNS: resources to Pulumi, additions and deletions of a change to the API.

As terraform-provider-google, google/services/dns/resource_dns_record_set.go: a record set that
exists is replaced by a create, and one that is gone, or whose zone is, is no error of a delete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from embedded_cloud.gcp_plugin.call import CloudCall, failing_with, unless_gone
from embedded_cloud.gcp_plugin.fields import write
from embedded_cloud.gcp_plugin.resource_type import (
    Made,
    ResourceType,
    creation_of,
    require_created,
    scope_of,
)
from embedded_cloud.gcp_plugin.states import (
    NO_DEFAULTS,
    identified,
    known_after,
    located,
    state_of,
)
from embedded_cloud.json_types import JsonObject, JsonValue, children, text
from pulumi_plugin.values import Properties
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
