"""A replacement that was made and is in no state.

When only the plugin dies in the middle of a replacement's create, its engine lives on, takes the
create for failed and keeps no operation of it: the old generation is in the state, the next one is
in the cloud. Its name follows from the old one's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tpuflex.engine.recovery_look import Answer, Look
from tpuflex.engine.recovery_table import QUEUED_RESOURCE
from tpuflex.engine.recovery_zones import Zones
from tpuflex.engine.state import Stored, pending, resources
from tpuflex.naming import generation_id, generation_of

_SERIES = re.compile(r"(.+)-g\d+")


def successors(
    deployment: Stored, look: Look, zones: Mapping[str, Zones] | None = None
) -> list[Stored]:
    """For each queued resource of which the cloud has the next generation, a pending creation of
    it, as the engine would have left one; none where an operation is pending anyhow.

    Args:
        deployment: the stack's state.
        look: looks into the cloud.
        zones: by URN, where to look instead of in the zones that the state names; then only
            those resources count.
    """
    busy = {operation["resource"]["urn"] for operation in pending(deployment)}
    found = []
    for resource in resources(deployment):
        urn = resource["urn"]
        if resource["type"] != QUEUED_RESOURCE or resource.get("delete") or urn in busy:
            continue
        if zones is not None and urn not in zones:
            continue
        inputs = {**(resource.get("inputs") or {}), "queuedResourceId": _next_id(resource)}
        if zones is not None:
            inputs["zones"] = [*zones[urn]]
        if inputs["queuedResourceId"] and look(QUEUED_RESOURCE, inputs).answer is Answer.OURS:
            begun = {key: value for key, value in resource.items() if key not in _OF_ITS_OWN}
            found.append({"resource": {**begun, "inputs": inputs}, "type": "creating"})
    return found


#: What the engine says of the old one alone.
_OF_ITS_OWN = frozenset(
    {"id", "outputs", "created", "modified", "initErrors", "pendingReplacement"}
)


def _next_id(resource: Stored) -> str:
    inputs = resource.get("inputs") or {}
    id_ = str(inputs.get("queuedResourceId") or "")
    series = _SERIES.fullmatch(id_)
    prefix = inputs.get("queuedResourceIdPrefix") or (series[1] if series else "")
    generation = generation_of(str(prefix), id_)
    return "" if generation is None else generation_id(str(prefix), generation + 1)
