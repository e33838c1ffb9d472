"""Resources that a state records but that belong to another owner by now, and the state without
them.

A state knows a resource by its name. If the resource was deleted outside of Pulumi, and another
state has made one of the same name, the first state's plugin would delete that: it checks no
markers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.engine.state import Stored, is_cloud, pending, resources
from tpuflex.errors import TpuflexError
from tpuflex.inventory.kinds import of_type
from tpuflex.inventory.resource_ids import ids_of
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.recovery.look import Presence

if TYPE_CHECKING:
    from tpuflex.recovery.look import Look, LookResult

#: Looks under way at once.
_AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a state knows, compared with the cloud.

    Attributes:
        foreign: why it is not ours any more, by URN; only of what the cloud has described.
        uncompared: why the cloud has not described it, by URN.
    """

    foreign: Mapping[str, str]
    uncompared: Mapping[str, TpuflexError]


def compare(deployment: Stored, look: Look) -> Comparison:
    """Whether what ``deployment`` knows is still ours in the cloud."""
    asked = [one for one in resources(deployment) if _has_marker(one)]

    def seen(resource: Stored) -> LookResult:
        return look(resource["type"], resource.get("inputs") or {})

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        looked = list(zip(asked, pool.map(seen, asked), strict=True))
    found = {
        one["urn"]: result.detail
        for one, result in looked
        if result.presence is Presence.FOREIGN and result.error is None
    }
    within = {
        one["urn"]: "it belongs to something that is not ours"
        for one in resources(deployment)
        if _has_no_marker(one) and found.keys() & {*_dependencies(one)}
    }
    uncompared = {one["urn"]: result.error for one, result in looked if result.error}
    return Comparison({**within, **found}, uncompared)


def without_resources(deployment: Stored, urns: Collection[str]) -> Stored:
    """``deployment`` without the resources ``urns``, so that the engine never touches them."""

    def free(resource: Stored) -> Stored:
        """``resource``, depending on none of them."""
        named = resource.get("propertyDependencies") or {}
        changed = {
            "dependencies": _without(resource.get("dependencies"), urns),
            "propertyDependencies": {key: _without(of, urns) for key, of in named.items()},
            "deletedWith": ""
            if resource.get("deletedWith") in urns
            else resource.get("deletedWith"),
        }
        return {**resource, **{key: value for key, value in changed.items() if key in resource}}

    kept = [free(one) for one in resources(deployment) if one["urn"] not in urns]
    operations = [op for op in pending(deployment) if op["resource"]["urn"] not in urns]
    return {
        **deployment,
        "resources": kept,
        **({"pending_operations": operations} if "pending_operations" in deployment else {}),
    }


def _has_marker(resource: Stored) -> bool:
    kind = of_type(resource["type"])
    asked = kind is not None and kind.found_by == "api" and is_cloud(resource)
    return asked and not _asked_elsewhere(resource)


def _asked_elsewhere(resource: Stored) -> bool:
    """Whether ``resource`` is a slice that was also asked for where its inputs do not say: then
    its provider, which deletes nothing with other marks, has to look for all of it."""
    requests = (resource.get("outputs") or {}).get("requests") or ()
    where = {place.id for place in ids_of(resource["type"], resource.get("inputs") or {})}
    return resource["type"] == QUEUED_RESOURCE and not where.issuperset(requests)


def _has_no_marker(resource: Stored) -> bool:
    kind = of_type(resource["type"])
    return kind is not None and kind.found_by != "api" and is_cloud(resource)


def _dependencies(resource: Stored) -> Iterator[str]:
    yield from resource.get("dependencies") or ()
    for urns in (resource.get("propertyDependencies") or {}).values():
        yield from urns or ()


def _without(urns: Collection[str] | None, gone: Collection[str]) -> list[str]:
    return [urn for urn in urns or () if urn not in gone]
