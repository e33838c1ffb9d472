"""The machine types and images of instances that are known: small ones, for work beside a bucket.

https://cloud.google.com/compute/docs/general-purpose-machines and
https://cloud.google.com/compute/docs/images/os-details (read 2026-11). On Google a zone may lack a
series; here every zone has all of these.
"""

from __future__ import annotations

_SIZES = {
    "e2-standard": (2, 4, 8, 16, 32),
    "e2-highcpu": (2, 4, 8, 16, 32),
    "e2-highmem": (2, 4, 8, 16),
    "n2-standard": (2, 4, 8, 16, 32),
    "n2-highcpu": (2, 4, 8, 16, 32),
    "n2-highmem": (2, 4, 8, 16, 32),
    "c3-standard": (4, 8, 22, 44),
    "c3-highcpu": (4, 8, 22, 44),
    "c3-highmem": (4, 8, 22, 44),
}

#: Names of machine types.
MACHINE_TYPES = frozenset(
    {"e2-micro", "e2-small", "e2-medium"}
    | {f"{series}-{size}" for series, sizes in _SIZES.items() for size in sizes}
)

#: Path of a boot image -> its size in GB. The second is what gcloud makes of a family.
IMAGES = {
    "projects/debian-cloud/global/images/family/debian-12": 10,
    "projects/debian-cloud/zones/-/imageFamilyViews/debian-12": 10,
}

#: Types of boot disks; machines of the third generation take no ``pd-standard``.
DISK_TYPES = frozenset({"pd-balanced", "pd-ssd", "pd-standard"})
