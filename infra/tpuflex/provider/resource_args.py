"""Argument classes for what a queued resource has inside: disks, interfaces, spans of time.

Source of all fields: `tpu.v2alpha1` (Google's discovery document), revision 20261001.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar, dataclass_transform

import pulumi

_Class = TypeVar("_Class")


@dataclass_transform(kw_only_default=True, field_specifiers=(pulumi.property,))
def _arguments(cls: type[_Class]) -> type[_Class]:
    """As :func:`pulumi.input_type`, told to type checkers: it makes an ``__init__``."""
    return pulumi.input_type(cls)


@_arguments
class AcceleratorConfigArgs:
    """The accelerator by its kind and shape (`AcceleratorConfig`)."""

    type: pulumi.Input[str] = pulumi.property("type")
    """Kind of TPU: V2, V3, V4, V5LITE_POD, V5P or V6E."""
    topology: pulumi.Input[str] = pulumi.property("topology")
    """Shape in chips, such as 2x2."""


@_arguments
class NetworkConfigArgs:
    """One network interface of every host (`NetworkConfig`)."""

    network: pulumi.Input[str] | None = pulumi.property("network", default=None)
    """VPC network, by name or full path; the project's default network unless given."""
    subnetwork: pulumi.Input[str] | None = pulumi.property("subnetwork", default=None)
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access."""
    external_ips: pulumi.Input[bool] | None = pulumi.property("externalIps", default=None)
    """Whether the hosts get external IP addresses on it; off by default."""
    can_ip_forward: pulumi.Input[bool] | None = pulumi.property("canIpForward", default=None)
    """Whether packets with other source or destination addresses pass; off by default."""
    queue_count: pulumi.Input[int] | None = pulumi.property("queueCount", default=None)
    """Number of queues of the interface; Google chooses unless given."""


@_arguments
class DataDiskArgs:
    """A disk that exists already and is attached to the hosts (`AttachedDisk`)."""

    source_disk: pulumi.Input[str] = pulumi.property("sourceDisk")
    """Full path of the disk, `projects/P/zones/Z/disks/D`, in the zone of the slice."""
    mode: pulumi.Input[str] | None = pulumi.property("mode", default=None)
    """READ_WRITE (the default) or READ_ONLY."""
    worker_ids: pulumi.Input[Sequence[pulumi.Input[str]]] | None = pulumi.property(
        "workerIds", default=None
    )
    """Numbers of the hosts that it is attached to, as text such as "0"; all unless given."""


@_arguments
class BootDiskArgs:
    """The disk that the hosts boot from (`BootDiskConfig`)."""

    disk_size_gb: pulumi.Input[int] | None = pulumi.property("diskSizeGb", default=None)
    """Size in GB, at least that of the image; Google chooses unless given."""
    source_image: pulumi.Input[str] | None = pulumi.property("sourceImage", default=None)
    """Image to boot, `projects/P/global/images/I`; that of the runtime version unless given."""
    provisioned_iops: pulumi.Input[int] | None = pulumi.property("provisionedIops", default=None)
    """Operations per second to provision."""
    provisioned_throughput: pulumi.Input[int] | None = pulumi.property(
        "provisionedThroughput", default=None
    )
    """Throughput to provision, in MB per second."""
    storage_pool: pulumi.Input[str] | None = pulumi.property("storagePool", default=None)
    """Storage pool that the disk is made in, as a partial or full URL."""
    enable_confidential_compute: pulumi.Input[bool] | None = pulumi.property(
        "enableConfidentialCompute", default=None
    )
    """Whether the disk is made in confidential mode, which needs ``kms_key_name``."""
    kms_key_name: pulumi.Input[str] | None = pulumi.property("kmsKeyName", default=None)
    """Key of Cloud KMS that encrypts the disk,
    `projects/P/locations/L/keyRings/R/cryptoKeys/K`; Google's own unless given."""


@_arguments
class IntervalArgs:
    """A span of absolute time (`Interval`)."""

    start_time: pulumi.Input[str] | None = pulumi.property("startTime", default=None)
    """First moment at which hosts may be made (RFC 3339)."""
    end_time: pulumi.Input[str] | None = pulumi.property("endTime", default=None)
    """From this moment on, hosts are not made any more (RFC 3339)."""


@_arguments
class GuaranteedArgs:
    """Terms of the guaranteed tier (`Guaranteed`)."""

    min_duration: pulumi.Input[str] | None = pulumi.property("minDuration", default=None)
    """Only hosts that are free for at least this time will do: seconds with the suffix s."""
    reserved: pulumi.Input[bool] | None = pulumi.property("reserved", default=None)
    """Whether only reserved capacity will do; off by default."""


@_arguments
class MultiNodeArgs:
    """Several nodes in one request (`MultiNodeParams`)."""

    node_count: pulumi.Input[int] = pulumi.property("nodeCount")
    """Number of nodes, 2 to 256."""
    node_id_prefix: pulumi.Input[str] | None = pulumi.property("nodeIdPrefix", default=None)
    """The nodes are called PREFIX-0, PREFIX-1, …; the id of the queued resource unless given."""
    workload_type: pulumi.Input[str] | None = pulumi.property("workloadType", default=None)
    """What maintenance spares: AVAILABILITY_OPTIMIZED for serving, THROUGHPUT_OPTIMIZED for
    jobs; Google chooses unless given."""
