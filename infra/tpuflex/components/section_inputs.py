"""Types of the sections that :class:`~tpuflex.components.endpoint_args.VllmEndpointArgs` takes as
mappings: what is a ``pulumi.Input`` may be known only later, such as the output of a resource.

The keys, and what they mean, are those of :mod:`tpuflex.settings.model`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

from pulumi import Input

from tpuflex.settings.model import Timeouts
from tpuflex.settings.network import Egress
from tpuflex.settings.serving import CompileCache, ImageSource, Isolation, ServingFlags


class SliceInputs(TypedDict, total=False):
    """The section ``slice``; durations as in the stack file (``4h``)."""

    zones: Sequence[str]
    strategy: Literal["race", "ordered"]
    accelerator_type: str
    max_run_duration: str
    runtime_version: str
    give_up_after: str
    renew_before: str
    drain: str
    drain_margin: str
    rerun: Input[str]
    on_run_end: Literal["keep", "accept", "delete"]
    on_boot_change: Literal["replace", "update"]
    on_boot_failure: Literal["keep", "delete"]
    replace: Literal["create_first", "delete_first"]
    secure_boot: bool
    deletion_protection: bool
    timeouts: Timeouts | Mapping[str, str]


class WeightsInputs(TypedDict, total=False):
    """``weights`` in the section ``model``."""

    source: str
    revision: str
    manifest_sha256: Input[str]
    extra_files: Sequence[str]
    bucket: str
    manage_grants: bool
    bucket_suffix: str


class ModelInputs(TypedDict, total=False):
    """The section ``model``."""

    name: str
    weights: WeightsInputs


class ServingInputs(TypedDict, total=False):
    """The section ``serving``."""

    image: str
    image_source: ImageSource
    image_manifest_sha256: str
    flags: ServingFlags | Mapping[str, object]
    extra_args: Sequence[str]
    env: Input[Mapping[str, Input[str]]]
    media_domains: Sequence[str]
    port: int
    shm_size: str
    isolation: Isolation
    compile_cache: CompileCache
    warmup: str


class NetworkInputs(TypedDict, total=False):
    """The section ``network``."""

    name: Input[str]
    subnetwork: Input[str]
    subnetwork_cidr: Input[str]
    subnetwork_cidrs: Mapping[str, str]
    allowed_cidrs: Input[Sequence[Input[str]]]
    egress: Egress
    manage_firewall: bool
    ssh: bool
    tags: Input[Sequence[Input[str]]]


class IdentityInputs(TypedDict, total=False):
    """The section ``identity``."""

    service_account: Input[str]
    manage_grants: bool
