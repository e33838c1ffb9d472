"""The classes that a Pulumi program uses: the provider and the queued resource."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import cast

import pulumi

from tpuflex import __version__
from tpuflex.provider.resource_args import (
    AcceleratorConfigArgs,
    BootDiskArgs,
    DataDiskArgs,
    GuaranteedArgs,
    IntervalArgs,
    MultiNodeArgs,
    NetworkConfigArgs,
)
from tpuflex.provider.resource_properties import QueuedResourceProperties

__all__ = [
    "AcceleratorConfigArgs",
    "BootDiskArgs",
    "DataDiskArgs",
    "GuaranteedArgs",
    "IntervalArgs",
    "MultiNodeArgs",
    "NetworkConfigArgs",
    "Provider",
    "QueuedResource",
]

#: Properties that only the provider fills in.
OUTPUTS = (
    "name",
    "state",
    "lifecycle",
    "zone",
    "node_id",
    "node_state",
    "health",
    "nodes",
    "ip_addresses",
    "create_time",
    "active_time",
    "expire_time",
    "spec_hash",
    "requests",
)


class Provider(pulumi.ProviderResource):
    """An explicitly configured tpuflex provider.

    Use one wherever the Pulumi project is itself named `tpuflex`: the engine hands every key of
    the `tpuflex:` configuration namespace to the default provider of that name.
    """

    def __init__(
        self,
        resource_name: str,
        *,
        project: pulumi.Input[str] | None = None,
        embedded: pulumi.Input[bool] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """
        Args:
            resource_name: logical name.
            project: Google Cloud project of resources that name none.
            embedded: True: only the embedded cloud may be talked to; False: only Google;
                None: wherever the environment points.
            opts: resource options.
        """
        super().__init__(
            "tpuflex",
            resource_name,
            {"project": project, "embedded": embedded},
            _versioned(opts),
        )


class QueuedResource(QueuedResourceProperties):
    """A request for a TPU slice (Cloud TPU REST API v2alpha1).

    With Flex-start it waits in a queue for capacity, runs for at most ``max_run_duration``, and is
    then deleted by Google. Creating it waits until the hosts run, as long as ``queue_timeout``,
    ``provisioning_timeout`` and `custom_timeouts` allow; when the time is over it stays in the
    queue and in the state, and the next `pulumi up` goes on waiting.
    """

    # Pulumi reads names on the wire from a class's own annotations, not from inherited ones.
    __annotations__ = {**QueuedResourceProperties.__annotations__}

    def __init__(
        self,
        resource_name: str,
        *,
        zones: pulumi.Input[Sequence[pulumi.Input[str]]],
        runtime_version: pulumi.Input[str],
        service_account: pulumi.Input[str],
        accelerator_type: pulumi.Input[str] | None = None,
        accelerator_config: pulumi.Input[AcceleratorConfigArgs] | None = None,
        max_run_duration: pulumi.Input[str] | None = None,
        termination_time: pulumi.Input[str] | None = None,
        queued_resource_id: pulumi.Input[str] | None = None,
        queued_resource_id_prefix: pulumi.Input[str] | None = None,
        project: pulumi.Input[str] | None = None,
        network: pulumi.Input[str] | None = None,
        subnetwork: pulumi.Input[str] | None = None,
        external_ips: pulumi.Input[bool] | None = None,
        can_ip_forward: pulumi.Input[bool] | None = None,
        queue_count: pulumi.Input[int] | None = None,
        network_configs: pulumi.Input[Sequence[pulumi.Input[NetworkConfigArgs]]] | None = None,
        cidr_block: pulumi.Input[str] | None = None,
        scopes: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        tags: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        labels: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        metadata: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        on_boot_change: pulumi.Input[str] | None = None,
        description: pulumi.Input[str] | None = None,
        secure_boot: pulumi.Input[bool] | None = None,
        autocheckpoint_enabled: pulumi.Input[bool] | None = None,
        data_disks: pulumi.Input[Sequence[pulumi.Input[DataDiskArgs]]] | None = None,
        boot_disk: pulumi.Input[BootDiskArgs] | None = None,
        provisioning_model: pulumi.Input[str] | None = None,
        reservation_name: pulumi.Input[str] | None = None,
        best_effort: pulumi.Input[bool] | None = None,
        guaranteed: pulumi.Input[GuaranteedArgs] | None = None,
        valid_until_duration: pulumi.Input[str] | None = None,
        valid_until_time: pulumi.Input[str] | None = None,
        valid_after_duration: pulumi.Input[str] | None = None,
        valid_after_time: pulumi.Input[str] | None = None,
        valid_interval: pulumi.Input[IntervalArgs] | None = None,
        multi_node: pulumi.Input[MultiNodeArgs] | None = None,
        strategy: pulumi.Input[str] | None = None,
        queue_timeout: pulumi.Input[str] | None = None,
        provisioning_timeout: pulumi.Input[str] | None = None,
        delete_timeout: pulumi.Input[str] | None = None,
        renew_before: pulumi.Input[str] | None = None,
        rerun: pulumi.Input[str] | None = None,
        on_run_end: pulumi.Input[str] | None = None,
        deletion_protection: pulumi.Input[bool] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """
        Args:
            resource_name: logical name.
            zones: zones in which capacity is asked for, such as us-east5-a. The first that grants
                it has the slice (see `strategy`).
            runtime_version: TPU software version, such as v2-alpha-tpuv6e.
            service_account: email address of the service account that the hosts run as.
            accelerator_type: accelerator type such as v6e-4 (four v6e chips). Either this or
                ``accelerator_config``.
            accelerator_config: the accelerator by its kind and shape. Either this or
                ``accelerator_type``.
            max_run_duration: after this time Google deletes the hosts, whatever they do: seconds
                with the suffix s, 600s to 604800s (7 days). FLEX_START needs either this or
                ``termination_time``.
            termination_time: at this time Google deletes the hosts, whatever they do (RFC 3339), at
                most 7 days from now. FLEX_START needs either this or ``max_run_duration``.
            queued_resource_id: id of the queued resource within its zone; the node gets the same
                id. While it is given, old and new cannot exist together: a replacement deletes
                first. Made from ``queued_resource_id_prefix`` unless given.
            queued_resource_id_prefix: what ids are made of: PREFIX-g1, and PREFIX-g2 for what
                replaces it. Made from Pulumi project, stack and logical name unless given.
            project: Google Cloud project id; the provider's project unless given.
            network: VPC network, by name or full path; the project's default network unless given.
            subnetwork: subnetwork, by name or full path. Without external IPs it needs Private
                Google Access.
            external_ips: whether the hosts get external IP addresses. Off by default; changed in
                place.
            can_ip_forward: whether the hosts may send and receive packets with other source or
                destination addresses, as routers do. Off by default.
            queue_count: number of queues of the hosts' network interface; Google chooses unless
                given.
            network_configs: several network interfaces, instead of `network` and `subnetwork`.
                Changing any of it replaces.
            cidr_block: block of addresses for the hosts, a /29 such as 10.240.0.0/29; Google
                chooses unless given.
            scopes: OAuth scopes of the hosts' service account; cloud-platform unless given.
            tags: network tags of the hosts, by which firewall rules find them. Changed in place.
            labels: labels of the node, at most 63. `tpuflex-owner` marks whose it is; made from
                Pulumi project, stack and logical name unless given. Changed in place.
            metadata: metadata of the hosts, at most 256 KiB per value and 512 KiB in all. Never a
                secret: everyone who may read the node may read it. `startup-script` runs at every
                boot. Changed in place, except for what only a boot reads (see ``on_boot_change``).
            on_boot_change: what a changed `startup-script` or `tpuflex-config` does: `replace` (the
                default) makes new hosts that run it; `update` changes the metadata, which takes
                effect when the hosts boot the next time. Not sent to Google.
            description: text for people, at most 512 characters. Changed in place.
            secure_boot: whether the hosts verify what they boot. On by default.
            autocheckpoint_enabled: whether frameworks that support Autocheckpoint are told of
                coming maintenance. Off by default.
            data_disks: disks that exist already, to be attached to the hosts.
            boot_disk: the disk that the hosts boot from; Google chooses unless given.
            provisioning_model: how capacity is obtained: FLEX_START (the default; waits in a queue,
                then runs for a fixed time), STANDARD (on demand), SPOT (may be taken back at any
                time) or RESERVATION_BOUND (from ``reservation_name``).
            reservation_name: reservation to take the capacity from,
                `projects/P/locations/Z/reservations/R`. Only with RESERVATION_BOUND, which needs
                it.
            best_effort: whether to ask in the best-effort tier, whose hosts may be taken back at
                any time. Only with STANDARD; off by default.
            guaranteed: ask in the guaranteed tier, on these terms. Only with STANDARD or
                RESERVATION_BOUND.
            valid_until_duration: give the request up after this time in the queue: seconds with the
                suffix s. By default it waits until it is granted or deleted.
            valid_until_time: give the request up at this time (RFC 3339).
            valid_after_duration: make no hosts before this time has passed: seconds with the suffix
                s.
            valid_after_time: make no hosts before this time (RFC 3339).
            valid_interval: make hosts only within this span of time; for an earliest and a latest
                time together.
            multi_node: ask for several nodes (slices of the same shape) instead of one, which has
                the id of the queued resource. It is ACTIVE once every node is READY, and replaced
                once one of them is lost. Google's API allows it with every provisioning model;
                with FLEX_START it was tried on the embedded cloud only. The stack file's
                `tpuflex:slice` is always one node.
            strategy: how several zones are asked: `race` asks in all of them at once and deletes
                the losers; `ordered` asks in one after the other, each for its share of
                ``queue_timeout``.
            queue_timeout: how long to wait in the queue: seconds with the suffix s, 24 hours by
                default. After that the request stays in the queue and in the state; the next
                `pulumi up` waits on.
            provisioning_timeout: how long the hosts may take to be made once capacity was granted:
                seconds with the suffix s, 3 hours by default.
            delete_timeout: how long a deletion may take: seconds with the suffix s, 3 hours by
                default. What is in PROVISIONING cannot be deleted, which was seen to last for 2
                hours.
            renew_before: plan a new run once less than this is left of the present one, or it is
                over: seconds with the suffix s. Without it, a run that ended stays ended.
            rerun: any text; changing it asks for a new run, whether the present one is over or not.
            on_run_end: what the next `pulumi up` does with the leftover of a run that is over,
                which still uses quota: `keep` it, or `delete` it.
            deletion_protection: whether deleting or replacing it is refused while it is ACTIVE. To
                delete it, set this to false and run `pulumi up` first.
            opts: resource options.
        """
        given = {**locals()}
        kind = _inputs()
        inputs = object.__new__(kind)
        inputs.__dict__ |= {name: given[name] for name in _annotations()} | dict.fromkeys(OUTPUTS)
        super().__init__(
            "tpuflex:tpu:QueuedResource",
            resource_name,
            cast("Mapping[str, object]", inputs),  # Pulumi takes a class of inputs, too
            _versioned(opts),
        )


@functools.cache
def _annotations() -> Mapping[str, str]:
    """The type of every input as it is written above, by its Python name."""
    written = QueuedResource.__init__.__annotations__
    return {k: v for k, v in written.items() if k not in ("resource_name", "opts", "return")}


@functools.cache
def _inputs() -> type[object]:
    """The inputs as a class of Pulumi's: with it, only names of ours are translated to the wire,
    and never the keys of labels and metadata."""
    annotations = {**dict.fromkeys(OUTPUTS, "object"), **_annotations()}
    body = {name: pulumi.property(_camel(name), default=None) for name in annotations}
    made = type("RequestArgs", (), {**body, "__annotations__": annotations, "__module__": __name__})
    return pulumi.input_type(made)


def _camel(name: str) -> str:
    """The name on the wire of the property ``name``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _versioned(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """The version tells the engine which provider plugin goes with these classes."""
    return pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=__version__), opts)
