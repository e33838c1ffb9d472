"""What a program may say about the hosts: accelerator, software, identity, marks, metadata.

Source of all fields: `Node` of `tpu.v2alpha1`, revision 20261001, unless another is named.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from tpuflex.naming import LABEL_OWNER, LABEL_SPEC
from tpuflex.request.disk_args import BootDisk, DataDisk
from tpuflex.request.values import Group

CLOUD_PLATFORM_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
#: Compute metadata limits in bytes, which TPU hosts share
#: (https://cloud.google.com/compute/docs/metadata/setting-custom-metadata).
_METADATA_VALUE_LIMIT = 256 * 1024
_METADATA_LIMIT = 512 * 1024

_LabelKey = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
_LabelValue = Annotated[str, Field(pattern=r"^[a-z0-9_-]{0,63}$")]
_MetadataKey = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,127}$")]
_Tag = Annotated[str, Field(pattern=r"^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$")]


def _within_limits(value: dict[str, str]) -> dict[str, str]:
    sizes = {key: len(text.encode()) for key, text in value.items()}
    for key, size in sizes.items():
        if size > _METADATA_VALUE_LIMIT:
            raise ValueError(f"the value of {key!r} has {size} bytes, at most 262144 are allowed")
    total = sum(sizes.values()) + sum(len(key) for key in value)
    if total > _METADATA_LIMIT:
        raise ValueError(f"keys and values have {total} bytes together, at most 524288 are allowed")
    return value


def _not_reserved(value: dict[str, str]) -> dict[str, str]:
    if LABEL_SPEC in value:
        raise ValueError(f"the label {LABEL_SPEC} is written by the provider itself")
    if not value.get(LABEL_OWNER):
        raise ValueError(f"the label {LABEL_OWNER} must say whose this is (leave it out for ours)")
    return value


class AcceleratorConfig(Group):
    """The accelerator by its kind and shape."""

    type: Literal["V2", "V3", "V4", "V5LITE_POD", "V5P", "V6E"]
    """Kind of TPU: V2, V3, V4, V5LITE_POD, V5P or V6E."""

    topology: str = Field(pattern=r"^[1-9]\d*(x[1-9]\d*){1,2}$")
    """Shape in chips, such as 2x2."""


class NodeArgs(Group):
    """Inputs for the hosts themselves."""

    accelerator_type: str | None = Field(default=None, pattern=r"^[a-z0-9]+-[1-9]\d*$")
    """Accelerator type such as v6e-4 (four v6e chips). Either this or `acceleratorConfig`."""

    accelerator_config: AcceleratorConfig | None = None
    """The accelerator by its kind and shape. Either this or `acceleratorType`."""

    runtime_version: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
    """TPU software version, such as v2-alpha-tpuv6e."""

    service_account: str = Field(pattern=r"^[^@\s]+@[^@\s]+$")
    """Email address of the service account that the hosts run as."""

    scopes: tuple[str, ...] = Field(default=(CLOUD_PLATFORM_SCOPE,), min_length=1)
    """OAuth scopes of the hosts' service account; cloud-platform unless given."""

    tags: tuple[_Tag, ...] = ()
    """Network tags of the hosts, by which firewall rules find them. Changed in place."""

    labels: Annotated[
        dict[_LabelKey, _LabelValue], Field(max_length=63), AfterValidator(_not_reserved)
    ]
    """Labels of the node, at most 63. `tpuflex-owner` marks whose it is; made from Pulumi
    project, stack and logical name unless given. Changed in place."""

    metadata: Annotated[dict[_MetadataKey, str], AfterValidator(_within_limits)] = {}
    """Metadata of the hosts, at most 256 KiB per value and 512 KiB in all. Never a secret:
    everyone who may read the node may read it. `startup-script` runs at every boot. Changed in
    place, except for what only a boot reads (see `onBootChange`)."""

    on_boot_change: Literal["replace", "update"] = "replace"
    """What a changed `startup-script` or `tpuflex-config` does: `replace` (the default) makes
    new hosts that run it; `update` changes the metadata, which takes effect when the hosts boot
    the next time. Not sent to Google."""

    description: str | None = Field(default=None, max_length=512)
    """Text for people, at most 512 characters. Changed in place."""

    secure_boot: bool = True
    """Whether the hosts verify what they boot. On by default."""

    autocheckpoint_enabled: bool = False
    """Whether frameworks that support Autocheckpoint are told of coming maintenance. Off by
    default."""

    data_disks: tuple[DataDisk, ...] = ()
    """Disks that exist already, to be attached to the hosts."""

    boot_disk: BootDisk | None = None
    """The disk that the hosts boot from; Google chooses unless given."""
