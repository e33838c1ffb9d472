"""Where the resources that a program asks for would be, by its inputs alone. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pulumi_plugin.values import UNKNOWN_STRING
from tpuflex.gcp.kinds import Inputs, of_type


@dataclass(frozen=True, slots=True)
class Place:
    """Where one resource is, if it is anywhere.

    Attributes:
        id: its id.
        path: where its API is asked for it.
    """

    id: str
    path: str


def places(type_: str, inputs: Inputs) -> tuple[Place, ...]:
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
            place = Place(kind.id.format_map(values), kind.path.format_map(values))
        except KeyError:
            return ()
        if unknown(place.id):
            return ()
        found.append(place)
    return tuple(found)


def unknown(value: object) -> bool:
    """Whether a value holds something that is not known yet, or was blanked as a secret."""
    if isinstance(value, str):
        return UNKNOWN_STRING in value or value == "[secret]"
    if isinstance(value, Mapping):
        return any(unknown(item) for item in value.values())
    return isinstance(value, list | tuple) and any(unknown(item) for item in value)
