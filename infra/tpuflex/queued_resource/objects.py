"""What is inside of the inputs that are objects, a row per field.

Source of all fields: `tpu.v2alpha1`, revision 20261001; each class names its schema. The texts
are also those of the package schema and of the generated Python classes.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tpuflex.queued_resource.limits import MOST_NODES
from tpuflex.queued_resource.rows import Count, Form, Group, Input, Moment, Seconds

ALWAYS, INT64, NAME_OR_PATH = Form.ALWAYS, Form.INT64, Form.NAME_OR_PATH
SWITCH_EXAMPLE = "Write true or false."
NUMBER_EXAMPLE = "Write a number."
SECONDS_EXAMPLE = "Write seconds with the suffix s, such as 14400s."
TIME_EXAMPLE = "Write a time such as 2026-12-01T08:00:00Z."
ID_EXAMPLE = "Write lower-case letters, digits and hyphens, a letter first."
NETWORK_EXAMPLE = "Write a network's name or path."
SUBNETWORK_EXAMPLE = "Write a subnetwork's name or path."
_Text = Annotated[str, Field(min_length=1)]


class AcceleratorConfig(Group):
    """The accelerator by its kind and shape."""

    type: Annotated[
        Literal["V2", "V3", "V4", "V5LITE_POD", "V5P", "V6E"],
        Input("type", "Write V2, V3, V4, V5LITE_POD, V5P or V6E."),
    ]
    """Kind of TPU: V2, V3, V4, V5LITE_POD, V5P or V6E."""

    topology: Annotated[
        str,
        Field(pattern=r"^[1-9]\d*(x[1-9]\d*){1,2}$"),
        Input("topology", "Write a shape such as 2x2."),
    ]
    """Shape in chips, such as 2x2."""


class NetworkConfig(Group):
    """One network interface of every host."""

    network: Annotated[_Text | None, Input("network", NETWORK_EXAMPLE, form=NAME_OR_PATH)] = None
    """VPC network, by name or full path; the project's default network unless given."""

    subnetwork: Annotated[
        _Text | None, Input("subnetwork", SUBNETWORK_EXAMPLE, form=NAME_OR_PATH)
    ] = None
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access."""

    external_ips: Annotated[bool, Input("enableExternalIps", SWITCH_EXAMPLE, form=ALWAYS)] = False
    """Whether the hosts get external IP addresses on it. Off by default."""

    can_ip_forward: Annotated[bool, Input("canIpForward", SWITCH_EXAMPLE)] = False
    """Whether packets with other source or destination addresses pass. Off by default."""

    queue_count: Annotated[
        int | None, Field(ge=1, le=2**31 - 1), Input("queueCount", NUMBER_EXAMPLE)
    ] = None
    """Number of queues of the interface; Google chooses unless given."""


class DataDisk(Group):
    """A disk that exists already and is attached to the hosts."""

    source_disk: Annotated[
        str,
        Field(pattern=r"^projects/[^/]+/zones/[^/]+/disks/[^/]+$"),
        Input("sourceDisk", "Write projects/P/zones/Z/disks/D."),
    ]
    """Full path of the disk, `projects/P/zones/Z/disks/D`, in the zone of the slice."""

    mode: Annotated[
        Literal["READ_WRITE", "READ_ONLY"], Input("mode", "Write READ_WRITE or READ_ONLY.")
    ] = "READ_WRITE"
    """How it is attached: READ_WRITE (the default) or READ_ONLY."""

    worker_ids: Annotated[
        tuple[_Text, ...], Input("workerIds", 'Write numbers as text, such as ["0"].')
    ] = ()
    """Numbers of the hosts that it is attached to, as text such as "0"; all unless given."""


class BootDisk(Group):
    """The disk that the hosts boot from."""

    disk_size_gb: Annotated[
        Count | None, Input("diskSizeGb", "Write a number of GB, such as 200.", form=INT64)
    ] = None
    """Size in GB, at least that of the image. Google chooses unless given."""

    source_image: Annotated[
        _Text | None, Input("sourceImage", "Write projects/P/global/images/I.")
    ] = None
    """Image to boot, `projects/P/global/images/I`; that of the runtime version unless given."""

    provisioned_iops: Annotated[
        Count | None, Input("provisionedIops", NUMBER_EXAMPLE, form=INT64)
    ] = None
    """Operations per second to provision."""

    provisioned_throughput: Annotated[
        Count | None, Input("provisionedThroughput", NUMBER_EXAMPLE, form=INT64)
    ] = None
    """Throughput to provision, in MB per second."""

    storage_pool: Annotated[
        _Text | None, Input("storagePool", "Write projects/P/zones/Z/storagePools/S.")
    ] = None
    """Storage pool that the disk is made in, as a partial or full URL."""

    enable_confidential_compute: Annotated[
        bool, Input("enableConfidentialCompute", SWITCH_EXAMPLE)
    ] = False
    """Whether the disk is made in confidential mode, which needs `kmsKeyName`."""

    kms_key_name: Annotated[
        str | None,
        Field(pattern=r"^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/.+$"),
        Input(
            "customerEncryptionKey.kmsKeyName",
            "Write projects/P/locations/L/keyRings/R/cryptoKeys/K.",
        ),
    ] = None
    """Key of Cloud KMS that encrypts the disk,
    `projects/P/locations/L/keyRings/R/cryptoKeys/K`; Google's own unless given."""


class Interval(Group):
    """A span of absolute time."""

    start_time: Annotated[Moment | None, Input("startTime", TIME_EXAMPLE)] = None
    """First moment at which hosts may be made (RFC 3339)."""

    end_time: Annotated[Moment | None, Input("endTime", TIME_EXAMPLE)] = None
    """From this moment on, hosts are not made any more (RFC 3339)."""


class Guaranteed(Group):
    """Terms of the guaranteed tier."""

    min_duration: Annotated[Seconds | None, Input("minDuration", SECONDS_EXAMPLE)] = None
    """Only hosts that are free for at least this time will do: seconds with the suffix s."""

    reserved: Annotated[bool, Input("reserved", SWITCH_EXAMPLE)] = False
    """Whether only reserved capacity will do. Off by default."""


class MultiNode(Group):
    """Several nodes in one request: granted all together, or not at all."""

    node_count: Annotated[
        int,
        Field(ge=2, le=MOST_NODES, strict=True),
        Input("nodeCount", "Write a number, 2 to 256."),
    ]
    """Number of nodes, 2 to 256."""

    node_id_prefix: Annotated[
        str | None,
        Field(pattern=r"^[a-z]([a-z0-9-]{0,59}[a-z0-9])?$"),
        Input("nodeIdPrefix", ID_EXAMPLE),
    ] = None
    """The nodes are called PREFIX-0, PREFIX-1, …; the id of the queued resource unless given.
    While it stays, old and new nodes cannot exist together: a replacement deletes first."""

    workload_type: Annotated[
        Literal["THROUGHPUT_OPTIMIZED", "AVAILABILITY_OPTIMIZED"] | None,
        Input("workloadType", "Write THROUGHPUT_OPTIMIZED or AVAILABILITY_OPTIMIZED."),
    ] = None
    """What maintenance spares: AVAILABILITY_OPTIMIZED for serving, THROUGHPUT_OPTIMIZED for
    jobs; Google chooses unless given."""
