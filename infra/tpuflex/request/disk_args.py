"""What a program may say about the disks of the hosts.

Source of all fields: `AttachedDisk` and `BootDiskConfig` of `tpu.v2alpha1`, revision 20261001.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tpuflex.request.values import Count, Group


class DataDisk(Group):
    """A disk that exists already and is attached to the hosts."""

    source_disk: str = Field(pattern=r"^projects/[^/]+/zones/[^/]+/disks/[^/]+$")
    """Full path of the disk, `projects/P/zones/Z/disks/D`, in the zone of the slice."""

    mode: Literal["READ_WRITE", "READ_ONLY"] = "READ_WRITE"
    """How it is attached: READ_WRITE (the default) or READ_ONLY."""

    worker_ids: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Numbers of the hosts that it is attached to, as text such as "0"; all unless given."""


class BootDisk(Group):
    """The disk that the hosts boot from."""

    disk_size_gb: Count | None = None
    """Size in GB, at least that of the image. Google chooses unless given."""

    source_image: str | None = Field(default=None, min_length=1)
    """Image to boot, `projects/P/global/images/I`; that of the runtime version unless given."""

    provisioned_iops: Count | None = None
    """Operations per second to provision."""

    provisioned_throughput: Count | None = None
    """Throughput to provision, in MB per second."""

    storage_pool: str | None = Field(default=None, min_length=1)
    """Storage pool that the disk is made in, as a partial or full URL."""

    enable_confidential_compute: bool = False
    """Whether the disk is made in confidential mode, which needs `kmsKeyName`."""

    kms_key_name: str | None = Field(
        default=None, pattern=r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+$"
    )
    """Key of Cloud KMS that encrypts the disk,
    `projects/P/locations/L/keyRings/R/cryptoKeys/K`; Google's own unless given."""
