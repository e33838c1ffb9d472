"""Requests of a resource that its state does not know of, in whatever zone.

A slice that waits can be given other zones without being replaced. Killed in the middle of that,
the state keeps the old zones; and when only the plugin was killed, its engine took the update for
failed and keeps no operation either. By now the program may name yet other zones: only the cloud
knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tpuflex.engine.recovery_look import Answer, Finding, Look
from tpuflex.engine.recovery_table import QUEUED_RESOURCE, places
from tpuflex.engine.state import Stored, is_reminder, living, resources

Zones = tuple[str, ...]


def series_zones(deployment: Stored, look: Look) -> dict[str, Zones]:
    """By URN, the zones in which something was asked for as that queued resource, in whatever
    generation, and which ``deployment`` does not name.

    Raises:
        ApiError: the zones that it names could not be listed.
    """
    found = {}
    for resource in resources(deployment):
        if resource["type"] != QUEUED_RESOURCE or resource.get("delete"):
            continue
        inputs = resource.get("inputs") or {}
        there = (zone_of(finding) for finding in look.generations(inputs))
        new = tuple(dict.fromkeys(zone for zone in there if zone not in inputs["zones"]))
        if new:
            found[resource["urn"]] = new
    return found


def joined_zones(asked: Zones, found: Iterable[Finding]) -> list[str]:
    """The zones in which something is to be looked for: those that were ``asked`` for, behind
    those of ``found`` if any of them is another."""
    there = [zone_of(finding) for finding in found]
    return [*asked] if set(there) <= set(asked) else [*dict.fromkeys((*there, *asked))]


def zone_of(finding: Finding) -> str:
    """The zone of a queued resource that was found."""
    return finding.id.split("/")[3]


def strays(deployment: Stored, zones: Mapping[str, Zones], look: Look) -> dict[str, list[str]]:
    """By URN, the ids of what the cloud has in ``zones`` under the name of the resource in
    ``deployment``, is ours, and is not known to ``deployment``."""
    found: dict[str, list[str]] = {}
    for urn, named in zones.items():
        resource = living(deployment, urn)
        if resource is None:
            continue
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
        if not more or resource.get("delete") or is_reminder(resource):
            return resource
        outputs = resource.get("outputs") or {}
        known = outputs.get("requests") or [resource["id"]]
        return {**resource, "outputs": {**outputs, "requests": [*known, *more]}}

    return {**deployment, "resources": [knowing(one) for one in resources(deployment)]}


def _requests(resource: Mapping[str, Any]) -> set[str]:
    return {str(resource["id"]), *((resource.get("outputs") or {}).get("requests") or ())}
