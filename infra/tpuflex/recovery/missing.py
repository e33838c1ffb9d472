"""Queued resources that the cloud has and the state has lost.

When only a plugin dies, the engine takes the operation for failed and records nothing of it:
neither a replacement that was made, nor a request in another zone. More is lost if the next command
is not a `recover`, or if the program moves to other zones meanwhile. Name and marker identify such
a request, so all generations of a queued resource are listed, in every zone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tpuflex.engine.state import Stored, is_reminder, pending, pending_creation, resources
from tpuflex.inventory.resource_ids import ids_of
from tpuflex.naming import QUEUED_RESOURCE, generation_of
from tpuflex.queued_resource.name import RequestName
from tpuflex.queued_resource.snapshot import parse_time
from tpuflex.recovery.look import Look, LookResult


@dataclass(frozen=True, slots=True)
class Missing:
    """What a state does not know of one of its queued resources.

    Attributes:
        resource: its entry in the state.
        other_requests: full names of requests under its present id, in other zones.
        earlier: entries of what is only to be deleted.
        latest: the entry of what has replaced it, as pending creation; None if nothing has.
    """

    resource: Stored
    other_requests: tuple[str, ...]
    earlier: tuple[Stored, ...]
    latest: Stored | None


def missing(deployment: Stored, look: Look) -> list[Missing]:
    """What ``deployment`` does not know of its queued resources; only of those of which there is
    anything.

    Raises:
        AccessError, ApiError: a zone that it names could not be listed.
    """
    found = []
    for resource in resources(deployment):
        if resource["type"] != QUEUED_RESOURCE or resource.get("delete"):
            continue
        known = _known(deployment, resource["urn"])
        there = look.generations(resource.get("inputs") or {})
        series = by_id(result for result in there if result.id not in known)
        if series:
            found.append(_sorted(resource, series))
    return found


def by_id(results: Iterable[LookResult]) -> dict[str, list[LookResult]]:
    """``results`` in whatever zones, by the id of the queued resource, in their order."""
    found: dict[str, list[LookResult]] = {}
    for result in results:
        found.setdefault(RequestName.parse(result.id).id, []).append(result)
    return found


def joined_zones(asked: Sequence[str], found: Iterable[LookResult]) -> list[str]:
    """The zones in which something is to be looked for: those that were ``asked`` for, behind
    those of ``found`` if any of them is another."""
    there = [RequestName.parse(result.id).zone for result in found]
    return [*asked] if set(there) <= set(asked) else [*dict.fromkeys((*there, *asked))]


def with_missing(deployment: Stored, found: Iterable[Missing]) -> Stored:
    """``deployment`` with the other requests of ``found`` among what their resources have asked
    for, and with what is only to be deleted."""
    others = {each.resource["urn"]: each.other_requests for each in found}
    earlier = [entry for each in found for entry in each.earlier]

    def knowing(resource: Stored) -> Stored:
        more = others.get(resource["urn"])
        if not more or resource.get("delete"):
            return resource
        outputs = resource.get("outputs") or {}
        known = outputs.get("requests") or [resource["id"]]
        return {**resource, "outputs": {**outputs, "requests": [*known, *more]}}

    return {
        **deployment,
        "resources": [*(knowing(one) for one in resources(deployment)), *earlier],
    }


#: What the engine says of one entry alone.
_OF_ITS_OWN = frozenset(
    {"id", "outputs", "created", "modified", "initErrors", "pendingReplacement"}
)


def _sorted(resource: Stored, series: Mapping[str, list[LookResult]]) -> Missing:
    """Which of ``series``, the oldest generation first, has replaced ``resource``."""
    inputs, gone = resource["inputs"], is_reminder(resource)
    present = inputs["queuedResourceId"]
    elsewhere = [] if gone else series.get(present, [])
    others = [id_ for id_ in series if gone or id_ != present]
    heirs = [
        id_
        for id_ in others
        if (gone or _later(id_, present, inputs)) and not _older(series[id_], resource)
    ]
    latest = heirs[-1] if heirs else None
    return Missing(
        resource,
        tuple(request.id for request in elsewhere),
        tuple(
            {**_entry(resource, id_, series[id_]), "outputs": {}, "delete": True}
            for id_ in others
            if id_ != latest
        ),
        None if latest is None else pending_creation(_entry(resource, latest, series[latest])),
    )


def _later(id_: str, present: str, inputs: Mapping[str, Any]) -> bool:
    prefix = str(inputs.get("queuedResourceIdPrefix") or "")
    return (generation_of(prefix, id_) or 0) > (generation_of(prefix, present) or 0)


def _older(found: Iterable[LookResult], resource: Stored) -> bool:
    """Whether each of ``found`` was made before ``resource``, so that it has not replaced it: a
    state had let go of it, which passes over its name (ADR 0024)."""
    before = parse_time((resource.get("outputs") or {}).get("createTime"))
    made = [parse_time(each.created) for each in found]
    return before is not None and all(time is not None and time < before for time in made)


def _entry(resource: Stored, id_: str, found: list[LookResult]) -> Stored:
    inputs = resource["inputs"]
    zones = joined_zones(inputs["zones"], found)
    shared = {key: value for key, value in resource.items() if key not in _OF_ITS_OWN}
    asked = {**inputs, "queuedResourceId": id_, "zones": zones}
    return {**shared, "id": found[0].id, "inputs": asked}


def _known(deployment: Stored, urn: str) -> set[str]:
    """Full names of all that ``deployment`` says of ``urn``, and has pending."""
    waiting = [operation["resource"] for operation in pending(deployment)]
    found: set[str] = set()
    for one in (*resources(deployment), *waiting):
        if one["urn"] != urn or is_reminder(one):
            continue
        found.add(str(one.get("id") or ""))
        found |= set((one.get("outputs") or {}).get("requests") or ())
        found |= {place.id for place in ids_of(QUEUED_RESOURCE, one.get("inputs") or {})}
    return found
