"""The ids of the resources that a program asks for, by its inputs alone, and the zones and regions
that ids name. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pulumi_plugin.values import UNKNOWN_STRING
from tpuflex.catalog.zones import region_of
from tpuflex.inventory.kinds import Inputs, of_type

_ZONE = re.compile(r"/locations/([^/]+)/(?:queuedResources|nodes)/")
_REGION = re.compile(r"/regions/([^/]+)/")


@dataclass(frozen=True, slots=True)
class ResourceId:
    """Where one resource is, if it is anywhere.

    Attributes:
        id: its id.
        path: where its API is asked for it.
    """

    id: str
    path: str


def ids_of(type_: str, inputs: Inputs) -> tuple[ResourceId, ...]:
    """Where a resource of ``type_`` with ``inputs`` would be: one place, or one for each zone.

    Empty for a type that is not in the table, and while part of the name is not known.
    """
    kind = of_type(type_)
    if kind is None:
        return ()
    zones = inputs.get("zones")
    per_zone = [{"zone": zone} for zone in zones] if isinstance(zones, list) else [{}]
    found = []
    for zone in per_zone:
        values = {**inputs, **zone}
        try:
            if "{name}" in kind.id:
                values["name"] = kind.last.format_map(values)
            # A grant on a condition is told from others by the condition's title.
            condition = inputs.get("condition")
            title = f" {condition['title']}" if isinstance(condition, Mapping) else ""
            place = ResourceId(kind.id.format_map(values) + title, kind.path.format_map(values))
        except KeyError:
            return ()
        if unknown(place.id):
            return ()
        found.append(place)
    return tuple(found)


def zones_in(ids: Collection[str]) -> tuple[str, ...]:
    """The zones of the slices and nodes among ``ids``."""
    return _named(_ZONE, ids)


def regions_in(ids: Collection[str]) -> tuple[str, ...]:
    """The regions of ``ids``: those that are named, and those of the zones."""
    return tuple(dict.fromkeys((*_named(_REGION, ids), *map(region_of, zones_in(ids)))))


def _named(pattern: re.Pattern[str], ids: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted({found[1] for id_ in ids if (found := pattern.search(id_))}))


def unknown(value: object) -> bool:
    """Whether a value holds something that is not known yet, or was blanked as a secret."""
    if isinstance(value, str):
        return UNKNOWN_STRING in value or value == "[secret]"
    if isinstance(value, Mapping):
        return any(unknown(item) for item in value.values())
    return isinstance(value, list | tuple) and any(unknown(item) for item in value)
