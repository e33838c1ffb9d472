"""The Cloud DNS v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.dns.handlers import ZoneHandlers
from embedded_cloud.dns.record_set_handlers import ChangeHandlers, RecordSetHandlers
from embedded_cloud.dns.state import Zones
from embedded_cloud.routing import Context, Service


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
