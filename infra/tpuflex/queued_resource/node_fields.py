"""The inputs that describe the hosts and their network, a row each: the part of
:mod:`tpuflex.queued_resource.fields` that lands in the `Node` (`tpu.v2alpha1`, revision
20261001)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tpuflex.naming import LABEL_OWNER, LABEL_SPEC
from tpuflex.queued_resource.objects import (
    NETWORK_EXAMPLE,
    NUMBER_EXAMPLE,
    SUBNETWORK_EXAMPLE,
    SWITCH_EXAMPLE,
    AcceleratorConfig,
    BootDisk,
    DataDisk,
    NetworkConfig,
)
from tpuflex.queued_resource.rows import NODE, Form, Group, Input, OnChange, provider_input

CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Compute metadata limits in bytes, which TPU hosts share
#: (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata).
_METADATA_VALUE_LIMIT = 256 * 1024
_METADATA_LIMIT = 512 * 1024
_NETWORK = f"{NODE}.networkConfig"
_PATCHES, _ALWAYS, _NAME_OR_PATH = OnChange.PATCHES, Form.ALWAYS, Form.NAME_OR_PATH


def _checked_labels(value: dict[str, str]) -> dict[str, str]:
    if LABEL_SPEC in value:
        raise ValueError(f"the label {LABEL_SPEC} is written by the provider itself")
    if not value.get(LABEL_OWNER):
        raise ValueError(f"the label {LABEL_OWNER} must say whose this is (leave it out for ours)")
    return value


def _checked_metadata(value: dict[str, str]) -> dict[str, str]:
    sizes = {key: len(text.encode()) for key, text in value.items()}
    for key, size in sizes.items():
        if size > _METADATA_VALUE_LIMIT:
            raise ValueError(
                f"the value of {key!r} has {size} bytes,"
                f" at most {_METADATA_VALUE_LIMIT} are allowed"
            )
    total = sum(sizes.values()) + sum(len(key) for key in value)
    if total > _METADATA_LIMIT:
        raise ValueError(
            f"keys and values have {total} bytes together, at most {_METADATA_LIMIT} are allowed"
        )
    return value


_Text = Annotated[str, Field(min_length=1)]
_Tag = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]
_LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
_LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]
_MetadataKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,127}$")]


class Host(Group):
    """Accelerator, software, identity, labels and disks of the hosts."""

    accelerator_type: Annotated[
        str | None,
        Field(pattern=r"^[a-z0-9]+-[1-9]\d*$"),
        Input(f"{NODE}.acceleratorType", "Write a type and its size, such as v6e-4.", or_node=True),
    ] = None
    """Accelerator type such as v6e-4 (four v6e chips). Either this or `acceleratorConfig`."""

    accelerator_config: Annotated[
        AcceleratorConfig | None,
        Input(
            f"{NODE}.acceleratorConfig",
            "Write a type and a topology, such as {type: V6E, topology: 2x2}.",
        ),
    ] = None
    """The accelerator by its kind and shape. Either this or `acceleratorType`."""

    runtime_version: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$"),
        Input(
            f"{NODE}.runtimeVersion",
            "Write a runtime version, such as v2-alpha-tpuv6e.",
            or_node=True,
        ),
    ]
    """TPU software version, such as v2-alpha-tpuv6e."""

    service_account: Annotated[
        str,
        Field(pattern=r"^[^@\s]+@[^@\s]+$"),
        Input(
            f"{NODE}.serviceAccount.email",
            "Write the email address of a service account.",
            or_node=True,
        ),
    ]
    """Email address of the service account that the hosts run as."""

    scopes: Annotated[
        tuple[str, ...],
        Field(min_length=1),
        Input(
            f"{NODE}.serviceAccount.scope",
            f"Write OAuth scopes, such as [{CLOUD_PLATFORM_SCOPE}].",
            or_node=True,
        ),
    ] = (CLOUD_PLATFORM_SCOPE,)
    """OAuth scopes of the hosts' service account; cloud-platform unless given."""

    tags: Annotated[
        tuple[_Tag, ...],
        Input(
            f"{NODE}.tags",
            "Network tags: lower-case letters, digits and hyphens, at most 63.",
            _PATCHES,
        ),
    ] = ()
    """Network tags of the hosts, by which firewall rules find them. Changed in place."""

    labels: Annotated[
        dict[_LabelKey, _LabelValue],
        Field(max_length=63),
        AfterValidator(_checked_labels),
        Input(
            f"{NODE}.labels",
            "Label keys and values: lower-case letters, digits, - and _, at most 63.",
            _PATCHES,
        ),
    ]
    """Labels of the node, at most 63. `tpuflex-owner` marks whose it is; made from Pulumi
    project, stack and logical name unless given. Changed in place."""

    metadata: Annotated[
        dict[_MetadataKey, str],
        AfterValidator(_checked_metadata),
        Input(f"{NODE}.metadata", on_change=_PATCHES, shown=False),
    ] = {}
    """Metadata of the hosts, at most 256 KiB per value and 512 KiB in all. Never a secret:
    everyone who may read the node may read it. `startup-script` runs at every boot. Changed in
    place, except for what only a boot reads (see `onBootChange`)."""

    on_boot_change: Annotated[
        Literal["replace", "update"], provider_input("Write replace or update.")
    ] = "replace"
    """What a changed `startup-script` or `tpuflex-config` does: `replace` (the default) makes
    new hosts that run it; `update` changes the metadata, which takes effect when the hosts boot
    the next time. The same for `secureBoot`, which hosts have for good: with `update` a change
    of it waits for the next ones. Not sent to Google."""

    description: Annotated[
        str | None,
        Field(max_length=512),
        Input(f"{NODE}.description", "Write at most 512 characters.", _PATCHES),
    ] = None
    """Text for people, at most 512 characters. Changed in place."""

    secure_boot: Annotated[
        bool,
        Input(
            f"{NODE}.shieldedInstanceConfig.enableSecureBoot",
            SWITCH_EXAMPLE,
            OnChange.BOOTS,
            _ALWAYS,
        ),
    ] = False
    """Whether the hosts verify what they boot (Secure Boot). Off by default, as with gcloud. A
    change replaces, or with `onBootChange` update applies to the hosts that are made next."""

    autocheckpoint_enabled: Annotated[
        bool, Input(f"{NODE}.autocheckpointEnabled", SWITCH_EXAMPLE)
    ] = False
    """Whether frameworks that support Autocheckpoint are told of coming maintenance. Off by
    default."""

    data_disks: Annotated[
        tuple[DataDisk, ...],
        Input(
            f"{NODE}.dataDisks",
            "Write {sourceDisk: projects/P/zones/Z/disks/D, mode: READ_WRITE or READ_ONLY}.",
        ),
    ] = ()
    """Disks that exist already, to be attached to the hosts."""

    boot_disk: Annotated[
        BootDisk | None,
        Input(f"{NODE}.bootDiskConfig", "Write a disk, such as {diskSizeGb: 200}."),
    ] = None
    """The disk that the hosts boot from; Google chooses unless given."""


class HostNetwork(Group):
    """The network of the hosts: one interface, or `networkConfigs` for several."""

    network: Annotated[
        _Text | None,
        Input(f"{_NETWORK}.network", NETWORK_EXAMPLE, form=_NAME_OR_PATH),
    ] = None
    """VPC network, by name or full path; the project's default network unless given."""

    subnetwork: Annotated[
        _Text | None,
        Input(f"{_NETWORK}.subnetwork", SUBNETWORK_EXAMPLE, form=_NAME_OR_PATH),
    ] = None
    """Subnetwork, by name or full path. Without external IPs it needs Private Google Access. Where
    the zones are in several regions: the name that the subnetwork has in each of them."""

    external_ips: Annotated[
        bool, Input(f"{_NETWORK}.enableExternalIps", SWITCH_EXAMPLE, _PATCHES, _ALWAYS)
    ] = False
    """Whether the hosts get external IP addresses. Off by default; changed in place."""

    can_ip_forward: Annotated[bool, Input(f"{_NETWORK}.canIpForward", SWITCH_EXAMPLE)] = False
    """Whether the hosts may send and receive packets with other source or destination
    addresses, as routers do. Off by default."""

    queue_count: Annotated[
        int | None, Field(ge=1, le=2**31 - 1), Input(f"{_NETWORK}.queueCount", NUMBER_EXAMPLE)
    ] = None
    """Number of queues of the hosts' network interface; Google chooses unless given."""

    network_configs: Annotated[
        tuple[NetworkConfig, ...],
        Input(f"{NODE}.networkConfigs", "Write {network, subnetwork} for each interface."),
    ] = ()
    """Several network interfaces, instead of `network` and `subnetwork`. Changing any of it
    replaces."""

    cidr_block: Annotated[
        str | None,
        Field(pattern=r"^\d{1,3}(\.\d{1,3}){3}/29$"),
        Input(f"{NODE}.cidrBlock", "Write a block such as 10.240.0.0/29."),
    ] = None
    """Block of addresses for the hosts, a /29 such as 10.240.0.0/29; Google chooses unless
    given."""


#: Inputs that describe the one network, for which `networkConfigs` leaves no room.
ONE_NETWORK = ("network", "subnetwork", "externalIps", "canIpForward", "queueCount")
