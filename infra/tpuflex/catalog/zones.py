"""Regions of Google Cloud, and whether a zone's name is misspelt."""

from __future__ import annotations

import difflib

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


def is_misspelt(zone: str) -> bool:
    """Whether the region's name resembles a known one without being one.

    ``us-esat5-a`` is misspelt. ``us-east9-a`` is not: Google numbers new regions.
    """
    stem = _stem(zone)
    stems = {_stem(f"{region}-a") for region in REGIONS}
    return stem not in stems and bool(difflib.get_close_matches(stem, stems, n=1, cutoff=0.84))


def _stem(zone: str) -> str:
    return region_of(zone).rstrip("0123456789")
