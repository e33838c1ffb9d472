"""Resource paths: how one resource refers to another.

Here a resource is identified by its path from ``projects/`` on. On the wire it may be a full
link of any host and version, that path, or the short form ``global/networks/x``.

https://cloud.google.com/compute/docs/regions-zones (read 2026-11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedded_cloud.core.json_types import JsonValue
from embedded_cloud.services.compute.errors import invalid, not_found

_ABC = "abc"

#: Region -> letters of its zones.
REGIONS: dict[str, str] = {
    "africa-south1": _ABC,
    "asia-east1": _ABC,
    "asia-east2": _ABC,
    "asia-northeast1": _ABC,
    "asia-northeast2": _ABC,
    "asia-northeast3": _ABC,
    "asia-south1": _ABC,
    "asia-south2": _ABC,
    "asia-southeast1": _ABC,
    "asia-southeast2": _ABC,
    "asia-southeast3": _ABC,
    "australia-southeast1": _ABC,
    "australia-southeast2": _ABC,
    "europe-central2": _ABC,
    "europe-north1": _ABC,
    "europe-north2": _ABC,
    "europe-southwest1": _ABC,
    "europe-west1": "bcd",
    "europe-west2": _ABC,
    "europe-west3": _ABC,
    "europe-west4": _ABC,
    "europe-west6": _ABC,
    "europe-west8": _ABC,
    "europe-west9": _ABC,
    "europe-west10": _ABC,
    "europe-west12": _ABC,
    "me-central1": _ABC,
    "me-central2": _ABC,
    "me-west1": _ABC,
    "northamerica-northeast1": _ABC,
    "northamerica-northeast2": _ABC,
    "northamerica-south1": _ABC,
    "southamerica-east1": _ABC,
    "southamerica-west1": _ABC,
    "us-central1": "abcf",
    "us-central2": "b",
    "us-east1": "bcd",
    "us-east4": _ABC,
    "us-east5": _ABC,
    "us-south1": _ABC,
    "us-west1": _ABC,
    "us-west2": _ABC,
    "us-west3": _ABC,
    "us-west4": _ABC,
    "us-west8": _ABC,
}


_LINK = re.compile(
    r"(?:https?://[^/]+/(?:compute/[a-z0-9]+/)?)?"
    r"(projects/[^/]+/(?:global|regions/[^/]+|zones/[^/]+)(?:/[^/]+)*)"
)
_SHORT = re.compile(r"(?:global|regions/[^/]+|zones/[^/]+)/.+")
#: What users wrote for themselves, which may look like a path.
_PROSE = frozenset({"description", "labels", "metadata"})


def region_of(zone: str) -> str | None:
    """The region of ``zone``, or None if there is no such zone."""
    region, _, letter = zone.rpartition("-")
    return region if letter and letter in REGIONS.get(region, "") else None


@dataclass(frozen=True, slots=True)
class Scope:
    """Where resources of a kind live: globally, in one region, or in one zone.

    Attributes:
        region: empty for global and zonal ones.
        zone: empty for global and regional ones.
    """

    project: str
    region: str = ""
    zone: str = ""

    @classmethod
    def of(cls, params: Mapping[str, str]) -> Scope:
        """The place that the parameters of a path name."""
        return cls(params["project"], params.get("region", ""), params.get("zone", ""))

    @property
    def path(self) -> str:
        """``projects/p/global``, ``projects/p/regions/r`` or ``projects/p/zones/z``."""
        if self.zone:
            return f"projects/{self.project}/zones/{self.zone}"
        place = f"regions/{self.region}" if self.region else "global"
        return f"projects/{self.project}/{place}"

    def check(self) -> None:
        """Raises CloudError when there is no such region or zone (400, as Compute answers)."""
        if self.region and self.region not in REGIONS:
            raise invalid("region", self.region, "Unknown region.")
        if self.zone and region_of(self.zone) is None:
            raise invalid("zone", self.zone, "Unknown zone.")


def relative(value: JsonValue, project: str) -> JsonValue:
    """``value`` with every link to a resource cut down to its path, recursively."""
    if isinstance(value, dict):
        return {
            key: entry if key in _PROSE else relative(entry, project)
            for key, entry in value.items()
        }
    if isinstance(value, list):
        return [relative(entry, project) for entry in value]
    if not isinstance(value, str):
        return value
    if found := _LINK.fullmatch(value):
        return found[1]
    return f"projects/{project}/{value}" if _SHORT.fullmatch(value) else value


def linked(value: JsonValue, base: str) -> JsonValue:
    """The inverse of :func:`relative`: every path becomes a link below ``base``."""
    if isinstance(value, dict):
        return {
            key: entry if key in _PROSE else linked(entry, base) for key, entry in value.items()
        }
    if isinstance(value, list):
        return [linked(entry, base) for entry in value]
    if isinstance(value, str) and value.startswith("projects/") and _LINK.fullmatch(value):
        return f"{base}/{value}"
    return value


def named(value: str, field: str, pattern: str, exists: Callable[[str], bool]) -> str:
    """A reference that must have the form ``pattern`` and name something that exists.

    Raises:
        CloudError: 400, it has another form; 404, there is no such resource.
    """
    if not re.fullmatch(pattern, value):
        raise invalid(field, value, "The URL is malformed.")
    if not exists(value):
        raise not_found(value)
    return value
