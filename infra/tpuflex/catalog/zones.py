"""Zones that are documented, or were observed, to accept Flex-start v6e requests.

No API tells whether a zone accepts the provisioning model; only a create does. Documentation
and observations differ in both directions, so this table gives warnings and forbids nothing.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from datetime import date
from typing import Literal

from tpuflex.catalog import Source

_TPU_PAGE = Source("https://cloud.google.com/tpu/docs/request-using-flex-start", date(2025, 9, 4))
_GKE_PAGE = Source("https://cloud.google.com/kubernetes-engine/docs/concepts/dws", date(2026, 8, 1))
_LISTED = Source("acceleratorTypes.list lists v6e in the zone", date(2026, 8, 10))

#: ``documented``: a Google page says so. ``observed``: requests were accepted.
#: ``refused``: a request was refused with INVALID_ARGUMENT. ``hardware``: has v6e chips,
#: Flex-start not tried.
FlexStart = Literal["documented", "observed", "refused", "hardware"]


@dataclass(frozen=True, slots=True)
class ZoneRow:
    """What is known about v6e on Flex-start in one zone.

    Attributes:
        zone: zone name.
        flex_start: what is known of its support for Flex-start v6e.
        source: where that comes from.
    """

    zone: str
    flex_start: FlexStart
    source: Source


def _observed(what: str) -> Source:
    return Source(what, date(2026, 8, 10))


ZONES: dict[str, ZoneRow] = {
    row.zone: row
    for row in (
        ZoneRow("us-east5-a", "documented", _TPU_PAGE),
        ZoneRow("asia-northeast1-b", "documented", _TPU_PAGE),
        ZoneRow("us-east5-b", "documented", _GKE_PAGE),
        ZoneRow("europe-west4-a", "observed", _observed("queued requests were accepted")),
        ZoneRow(
            "southamerica-west1-a",
            "observed",
            Source("a v6e-4 became ACTIVE", date(2026, 6, 30)),
        ),
        *(
            ZoneRow(zone, "refused", _observed("queued request refused with code 3"))
            for zone in (
                "us-central1-b",
                "us-south1-a",
                "asia-east1-c",
                "asia-south1-b",
                "asia-south1-c",
                "asia-southeast1-b",
                "southamerica-east1-c",
            )
        ),
        *(
            ZoneRow(zone, "hardware", _LISTED)
            for zone in (
                "us-east5-c",
                "us-central1-a",
                "us-central1-c",
                "us-south1-c",
                "us-west1-c",
                "us-east1-d",
            )
        ),
    )
}

#: Regions of Google Cloud, used only to tell a misspelt region from a new one
#: (https://cloud.google.com/compute/docs/regions-zones, 2026-08).
REGIONS: tuple[str, ...] = (
    "africa-south1",
    "asia-east1",
    "asia-east2",
    "asia-northeast1",
    "asia-northeast2",
    "asia-northeast3",
    "asia-south1",
    "asia-south2",
    "asia-southeast1",
    "asia-southeast2",
    "australia-southeast1",
    "australia-southeast2",
    "europe-central2",
    "europe-north1",
    "europe-north2",
    "europe-southwest1",
    "europe-west1",
    "europe-west2",
    "europe-west3",
    "europe-west4",
    "europe-west6",
    "europe-west8",
    "europe-west9",
    "europe-west10",
    "europe-west12",
    "me-central1",
    "me-central2",
    "me-west1",
    "northamerica-northeast1",
    "northamerica-northeast2",
    "northamerica-south1",
    "southamerica-east1",
    "southamerica-west1",
    "us-central1",
    "us-east1",
    "us-east4",
    "us-east5",
    "us-south1",
    "us-west1",
    "us-west2",
    "us-west3",
    "us-west4",
)


def region_of(zone: str) -> str:
    """The region of ``zone``: everything before the last hyphen."""
    return zone.rpartition("-")[0]


def accepting_zones() -> tuple[str, ...]:
    """Zones documented or observed to accept Flex-start v6e requests, documented ones first."""
    accepting = [row for row in ZONES.values() if row.flex_start in ("documented", "observed")]
    return tuple(row.zone for row in sorted(accepting, key=lambda row: row.flex_start))


def is_misspelt(zone: str) -> bool:
    """Whether the region's name resembles a known one without being one.

    ``us-esat5-a`` is misspelt. ``us-east9-a`` is not: Google numbers new regions.
    """
    stem = _stem(zone)
    stems = {_stem(f"{region}-a") for region in REGIONS}
    return stem not in stems and bool(difflib.get_close_matches(stem, stems, n=1, cutoff=0.84))


def nearest_zones(zone: str, count: int = 3) -> tuple[str, ...]:
    """Zones that ``zone`` may be a misspelling of, best first; may be empty."""
    lowered = zone.lower().replace("_", "-")
    return tuple(difflib.get_close_matches(lowered, ZONES, n=count, cutoff=0.7))


def _stem(zone: str) -> str:
    return region_of(zone).rstrip("0123456789")
