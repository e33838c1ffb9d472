"""Google Cloud's regions and their zones.

https://cloud.google.com/compute/docs/regions-zones (read 2026-11).
"""

from __future__ import annotations

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


def zones_of(region: str) -> tuple[str, ...]:
    """The zones of ``region``, in order. Raises KeyError for an unknown region."""
    return tuple(f"{region}-{letter}" for letter in REGIONS[region])


def region_of(zone: str) -> str | None:
    """The region of ``zone``, or None if there is no such zone."""
    region, _, letter = zone.rpartition("-")
    return region if letter and letter in REGIONS.get(region, "") else None
