"""What a state knows of the cloud: ids of everything that it has, or may have. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tpuflex.engine.state import Stored, is_cloud, pending, resources
from tpuflex.gcp.kinds import places
from tpuflex.naming import QUEUED_RESOURCE


def known_ids(deployment: Stored) -> frozenset[str]:
    """Ids of everything in ``deployment``: what it has, and what is pending in it.

    A request for a slice may be in any of its zones: those count as known, too.
    """
    begun = (operation["resource"] for operation in pending(deployment))
    found: set[str] = set()
    for resource in (*resources(deployment), *begun):
        if is_cloud(resource):
            found.update(_ids(resource))
    return frozenset(found - {""})


def _ids(resource: Stored) -> Iterator[str]:
    id_ = str(resource.get("id") or "")
    yield id_
    yield from map(str, (resource.get("outputs") or {}).get("requests") or ())
    type_ = str(resource.get("type"))
    if not id_ or type_ == QUEUED_RESOURCE:
        for place in places(type_, resource.get("inputs") or {}):
            # IAM members are imported as "a b" and kept as "a/b".
            yield place.id.replace(" ", "/")
