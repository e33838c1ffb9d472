"""Resource paths: how one resource refers to another.

Here a resource is identified by its path from ``projects/`` on. On the wire it may be a full
link of any host and version, that path, or the short form ``global/networks/x``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from embedded_cloud.compute.errors import invalid, not_found
from embedded_cloud.compute.locations import REGIONS, region_of
from embedded_cloud.json_types import JsonValue

_LINK = re.compile(
    r"(?:https?://[^/]+/(?:compute/[a-z0-9]+/)?)?"
    r"(projects/[^/]+/(?:global|regions/[^/]+|zones/[^/]+)(?:/[^/]+)*)"
)
_SHORT = re.compile(r"(?:global|regions/[^/]+|zones/[^/]+)/.+")
#: What users wrote for themselves, which may look like a path.
_PROSE = frozenset({"description", "labels", "metadata"})


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
