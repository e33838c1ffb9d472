"""HTTP calls on record sets and changes turned into calls on the state."""

from __future__ import annotations

from collections.abc import Sequence

from embedded_cloud.dns.errors import not_found
from embedded_cloud.dns.handlers import PAGING
from embedded_cloud.dns.state import Zones
from embedded_cloud.json_types import JsonObject, children, text
from embedded_cloud.routing import Call, Reply


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
