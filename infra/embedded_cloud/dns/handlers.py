"""HTTP calls on managed zones turned into calls on the state, and answers into JSON."""

from __future__ import annotations

from embedded_cloud.dns.errors import invalid
from embedded_cloud.dns.state import Zones
from embedded_cloud.json_types import JsonObject, merge
from embedded_cloud.paging import Paging
from embedded_cloud.routing import Call, Reply

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
