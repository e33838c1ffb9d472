"""Requests in zones that the state does not name.

A slice that still waits can be given other zones without being replaced. Killed in the middle of
that, the state keeps the old zones: what was asked for in a new one is in no state. The pending
update names it, or, if only the plugin died and the engine took its update for failed, nothing but
the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tpuflex.engine.recovery_look import Answer, Look
from tpuflex.engine.recovery_table import QUEUED_RESOURCE, places, unknown
from tpuflex.engine.state import Stored, living, resources

if TYPE_CHECKING:
    from tpuflex.engine.plan import Plan

Zones = tuple[str, ...]


def begun_zones(operations: Iterable[Stored]) -> dict[str, Zones]:
    """By URN, the zones of queued resources whose change is pending."""
    begun = (operation["resource"] for operation in operations if operation["type"] == "updating")
    return _zones((one["urn"], one["type"], one.get("inputs") or {}) for one in begun)


def program_zones(plan: Plan) -> dict[str, Zones]:
    """By URN, the zones that the program names for queued resources."""
    return _zones((step.urn, step.type, step.inputs) for step in plan.steps)


def new_zones(deployment: Stored, zones: Mapping[str, Zones]) -> dict[str, Zones]:
    """Those of ``zones`` that ``deployment`` does not name for the same resource; without those
    that have none such, or that ``deployment`` does not have."""
    found = {}
    for urn, named in zones.items():
        resource = living(deployment, urn)
        known = set(((resource or {}).get("inputs") or {}).get("zones") or ())
        new = tuple(zone for zone in named if zone not in known)
        if resource is not None and new:
            found[urn] = new
    return found


def strays(deployment: Stored, zones: Mapping[str, Zones], look: Look) -> dict[str, list[str]]:
    """By URN, the ids of what the cloud has in ``zones`` under the name of the resource in
    ``deployment``, is ours, and is not known to ``deployment``."""
    found: dict[str, list[str]] = {}
    for urn, named in new_zones(deployment, zones).items():
        resource = living(deployment, urn) or {}
        inputs, known = resource["inputs"], _requests(resource)
        for zone in named:
            there = {**inputs, "zones": [zone]}
            ids = [place.id for place in places(QUEUED_RESOURCE, there)]
            if known.isdisjoint(ids) and look(QUEUED_RESOURCE, there).answer is Answer.OURS:
                found.setdefault(urn, []).extend(ids)
    return found


def with_requests(deployment: Stored, found: Mapping[str, list[str]]) -> Stored:
    """``deployment`` with ``found`` among the requests that the resources have."""

    def knowing(resource: Stored) -> Stored:
        more = found.get(resource["urn"])
        if not more or resource.get("delete"):
            return resource
        outputs = resource.get("outputs") or {}
        known = outputs.get("requests") or [resource["id"]]
        return {**resource, "outputs": {**outputs, "requests": [*known, *more]}}

    return {**deployment, "resources": [knowing(one) for one in resources(deployment)]}


def _zones(named: Iterable[tuple[str, str, Mapping[str, Any]]]) -> dict[str, Zones]:
    found = {}
    for urn, type_, inputs in named:
        zones = inputs.get("zones")
        if type_ == QUEUED_RESOURCE and isinstance(zones, list) and not unknown(zones):
            found[urn] = tuple(str(zone) for zone in zones)
    return found


def _requests(resource: Stored) -> set[str]:
    return {str(resource["id"]), *((resource.get("outputs") or {}).get("requests") or ())}
