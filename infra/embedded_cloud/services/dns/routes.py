"""The Cloud DNS v1 methods that are emulated."""

from __future__ import annotations

from collections.abc import Sequence

from embedded_cloud.core.json_types import JsonObject, children, merge, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.services.dns.state import Zones, invalid, not_found

PAGING = Paging(
    default=100,
    maximum=1000,
    parameter="maxResults",
    minimum=1,
    bad_size=lambda size: invalid("parameters.maxResults", size),
    bad_token=lambda: invalid("parameters.pageToken", ""),
)


class ZoneHandlers:
    """Handlers of ``managedZones``."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def create(self, call: Call) -> Reply:
        """POST …/managedZones."""
        return Reply(body=self._zones.create(call.params["project"], merge({}, call.body or {})))

    def get(self, call: Call) -> Reply:
        """GET …/managedZones/{managedZone}."""
        return Reply(body=self._zone(call))

    def list(self, call: Call) -> Reply:
        """GET …/managedZones."""
        wanted = call.query.get("dnsName", "")
        zones = [
            zone
            for zone in self._zones.all(call.params["project"])
            if wanted in ("", zone["dnsName"])
        ]
        head: JsonObject = {"kind": "dns#managedZonesListResponse"}
        return PAGING.resources(call, "managedZones", zones, head=head)

    def patch(self, call: Call) -> Reply:
        """PATCH of one: objects merge, lists are replaced, null removes."""
        before = self._zone(call)
        return self._change(call, before, merge(before, call.body or {}))

    def update(self, call: Call) -> Reply:
        """PUT of one: everything changes."""
        return self._change(call, self._zone(call), merge({}, call.body or {}))

    def operation(self, call: Call) -> Reply:
        """GET …/managedZones/{managedZone}/operations/{operation}: of a change of the zone."""
        place = self._zones.named(call.params["project"], call.params["managedZone"])
        return Reply(body=self._zones.operation(*place, call.params["operation"]))

    def delete(self, call: Call) -> Reply:
        """DELETE of one; answered without a body."""
        self._zones.delete(call.params["project"], call.params["managedZone"])
        return Reply(status=204)

    def _change(self, call: Call, before: JsonObject, asked: JsonObject) -> Reply:
        return Reply(body=self._zones.replace(call.params["project"], before, asked))

    def _zone(self, call: Call) -> JsonObject:
        return self._zones.require(call.params["project"], call.params["managedZone"])


class RecordSetHandlers:
    """Handlers of ``resourceRecordSets``: each change of one is a change of its zone."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def create(self, call: Call) -> Reply:
        """POST …/rrsets."""
        body = call.body or {}
        self._zones.change(*_place(call), [body], [])
        return Reply(body=self._get(call, text(body, "name"), text(body, "type")))

    def get(self, call: Call) -> Reply:
        """GET …/rrsets/{name}/{type}."""
        return Reply(body=self._named(call))

    def list(self, call: Call) -> Reply:
        """GET …/rrsets."""
        project, zone = self._zones.named(*_place(call))
        wanted = {key: call.query[key] for key in ("name", "type") if call.query.get(key)}
        found = [
            each
            for each in self._zones.record_sets(project, zone)
            if all(each[key] == value for key, value in wanted.items())
        ]
        head: JsonObject = {"kind": "dns#resourceRecordSetsListResponse"}
        return PAGING.reply(
            call, "rrsets", found, lambda each: f"{each['name']} {each['type']}", dict, head=head
        )

    def patch(self, call: Call) -> Reply:
        """PATCH of one."""
        before = self._named(call)
        self._zones.change(*_place(call), [{**before, **(call.body or {})}], [before])
        return Reply(body=self._named(call))

    def delete(self, call: Call) -> Reply:
        """DELETE of one."""
        self._zones.change(*_place(call), [], [self._named(call)])
        return Reply(body={})

    def _named(self, call: Call) -> JsonObject:
        return self._get(call, call.params["name"], call.params["type"])

    def _get(self, call: Call, name: str, type_: str) -> JsonObject:
        project, zone = self._zones.named(*_place(call))
        return self._zones.record_set(project, zone, name, type_)


class ChangeHandlers:
    """Handlers of ``changes``."""

    def __init__(self, zones: Zones) -> None:
        self._zones = zones

    def create(self, call: Call) -> Reply:
        """POST …/changes: additions and deletions, all or none."""
        body = call.body or {}
        additions, deletions = children(body, "additions"), children(body, "deletions")
        return Reply(body=self._zones.change(*_place(call), additions, deletions))

    def get(self, call: Call) -> Reply:
        """GET …/changes/{changeId}."""
        for change in self._all(call):
            if change["id"] == call.params["changeId"]:
                return Reply(body=change)
        raise not_found("parameters.changeId", call.params["changeId"])

    def list(self, call: Call) -> Reply:
        """GET …/changes."""
        head: JsonObject = {"kind": "dns#changesListResponse"}
        return PAGING.reply(
            call,
            "changes",
            self._all(call),
            lambda change: text(change, "id").zfill(9),
            dict,
            descending=call.query.get("sortOrder") == "descending",
            head=head,
        )

    def _all(self, call: Call) -> Sequence[JsonObject]:
        project, zone = self._zones.named(*_place(call))
        return self._zones.changes(project, zone)


def _place(call: Call) -> tuple[str, str]:
    return call.params["project"], call.params["managedZone"]


def service(context: Context) -> Service:
    """Cloud DNS: managed zones and what is in them. Nothing resolves names with it."""
    state = Zones(context.store, context.clock)
    zones, records, changes = ZoneHandlers(state), RecordSetHandlers(state), ChangeHandlers(state)
    return Service(
        name="dns",
        version="v1",
        handlers={
            "dns.managedZones.create": zones.create,
            "dns.managedZones.list": zones.list,
            "dns.managedZones.get": zones.get,
            "dns.managedZones.patch": zones.patch,
            "dns.managedZones.update": zones.update,
            "dns.managedZones.delete": zones.delete,
            "dns.managedZoneOperations.get": zones.operation,
            "dns.resourceRecordSets.create": records.create,
            "dns.resourceRecordSets.list": records.list,
            "dns.resourceRecordSets.get": records.get,
            "dns.resourceRecordSets.patch": records.patch,
            "dns.resourceRecordSets.delete": records.delete,
            "dns.changes.create": changes.create,
            "dns.changes.list": changes.list,
            "dns.changes.get": changes.get,
        },
    )
