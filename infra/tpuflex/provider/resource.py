"""The classes that a Pulumi program uses: the provider and the queued resource."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pulumi

from tpuflex import __version__

__all__ = ["Provider", "QueuedResource"]


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


class QueuedResource(pulumi.CustomResource):
    """A request for a TPU slice with Flex-start (Cloud TPU REST API v2alpha1).

    It waits in a queue for capacity, runs for at most ``max_run_duration``, and is then deleted
    by Google. Creating it waits until the hosts run, for 24 hours unless `custom_timeouts` says
    otherwise; when the time is over it stays in the queue and in the state, and the next
    `pulumi up` goes on waiting.
    """

    queued_resource_id: pulumi.Output[str]
    """Id of the queued resource within its zone, and of its node."""
    project: pulumi.Output[str]
    """Google Cloud project id."""
    zones: pulumi.Output[Sequence[str]]
    """Zones in which capacity is asked for."""
    accelerator_type: pulumi.Output[str]
    """Accelerator type, such as v6e-4."""
    runtime_version: pulumi.Output[str]
    """TPU software version."""
    service_account: pulumi.Output[str]
    """Email address of the service account of the hosts."""
    max_run_duration: pulumi.Output[str]
    """Longest run, in seconds with the suffix s."""
    network: pulumi.Output[str | None]
    """VPC network."""
    subnetwork: pulumi.Output[str | None]
    """Subnetwork."""
    scopes: pulumi.Output[Sequence[str]]
    """OAuth scopes of the hosts' service account."""
    tags: pulumi.Output[Sequence[str]]
    """Network tags of the hosts."""
    labels: pulumi.Output[Mapping[str, str]]
    """Labels of the node."""
    metadata: pulumi.Output[Mapping[str, str]]
    """Metadata of the hosts."""
    description: pulumi.Output[str | None]
    """Text for people."""
    provisioning_model: pulumi.Output[str]
    """How capacity is obtained."""
    external_ips: pulumi.Output[bool]
    """Whether the hosts have external IP addresses."""
    valid_until_duration: pulumi.Output[str | None]
    """Longest wait in the queue, in seconds with the suffix s."""
    secure_boot: pulumi.Output[bool]
    """Whether the hosts verify what they boot."""

    name: pulumi.Output[str]
    """Full resource name, `projects/P/locations/Z/queuedResources/ID`."""
    state: pulumi.Output[str]
    """Google's word for the state, such as WAITING_FOR_RESOURCES."""
    lifecycle: pulumi.Output[str]
    """Where it stands: waiting, provisioning, active, ended, failed, lost or deleting."""
    zone: pulumi.Output[str]
    """Zone in which the request was placed."""
    node_id: pulumi.Output[str]
    """Id of the node."""
    node_state: pulumi.Output[str | None]
    """Google's word for the node's state, while there is a node."""
    health: pulumi.Output[str | None]
    """Google's word for the node's health, while there is a node."""
    ip_addresses: pulumi.Output[Sequence[str]]
    """Internal IP address of each host."""
    create_time: pulumi.Output[str | None]
    """When the request was placed (RFC 3339)."""
    active_time: pulumi.Output[str | None]
    """When the node was made (RFC 3339)."""
    expire_time: pulumi.Output[str | None]
    """When the run ends at the latest (RFC 3339)."""
    spec_hash: pulumi.Output[str | None]
    """Fingerprint of all that cannot be changed in place."""

    def __init__(
        self,
        resource_name: str,
        *,
        zones: pulumi.Input[Sequence[pulumi.Input[str]]],
        accelerator_type: pulumi.Input[str],
        runtime_version: pulumi.Input[str],
        service_account: pulumi.Input[str],
        max_run_duration: pulumi.Input[str],
        queued_resource_id: pulumi.Input[str] | None = None,
        project: pulumi.Input[str] | None = None,
        network: pulumi.Input[str] | None = None,
        subnetwork: pulumi.Input[str] | None = None,
        scopes: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        tags: pulumi.Input[Sequence[pulumi.Input[str]]] | None = None,
        labels: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        metadata: pulumi.Input[Mapping[str, pulumi.Input[str]]] | None = None,
        description: pulumi.Input[str] | None = None,
        provisioning_model: pulumi.Input[str] | None = None,
        external_ips: pulumi.Input[bool] | None = None,
        valid_until_duration: pulumi.Input[str] | None = None,
        secure_boot: pulumi.Input[bool] | None = None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        """
        Args:
            resource_name: logical name.
            zones: zone in which capacity is asked for, such as us-east5-a. Exactly one.
            accelerator_type: accelerator type such as v6e-4 (four v6e chips).
            runtime_version: TPU software version, such as v2-alpha-tpuv6e.
            service_account: email address of the service account that the hosts run as.
            max_run_duration: after this time Google deletes the hosts, whatever they do:
                seconds with the suffix s, 600s to 604800s (7 days).
            queued_resource_id: id of the queued resource and its node, at most 60 characters.
                Made from Pulumi project, stack and logical name unless given.
            project: Google Cloud project id; the provider's unless given.
            network: VPC network; the project's default network unless given.
            subnetwork: subnetwork. Without external IPs it needs Private Google Access.
            scopes: OAuth scopes of the hosts' service account; cloud-platform unless given.
            tags: network tags of the hosts.
            labels: labels of the node. `tpuflex-owner` marks whose it is; made from Pulumi
                project, stack and logical name unless given.
            metadata: metadata of the hosts, at most 256 KiB per value and 512 KiB in all.
                Never a secret. A changed `startup-script` or `tpuflex-config` replaces.
            description: text for people, at most 512 characters.
            provisioning_model: only FLEX_START for now.
            external_ips: whether the hosts get external IP addresses; off by default.
            valid_until_duration: give the request up after this time in the queue: seconds
                with the suffix s.
            secure_boot: whether the hosts verify what they boot; on by default.
            opts: resource options.
        """
        inputs = {
            "queued_resource_id": queued_resource_id,
            "project": project,
            "zones": zones,
            "accelerator_type": accelerator_type,
            "runtime_version": runtime_version,
            "service_account": service_account,
            "max_run_duration": max_run_duration,
            "network": network,
            "subnetwork": subnetwork,
            "scopes": scopes,
            "tags": tags,
            "labels": labels,
            "metadata": metadata,
            "description": description,
            "provisioning_model": provisioning_model,
            "external_ips": external_ips,
            "valid_until_duration": valid_until_duration,
            "secure_boot": secure_boot,
        }
        super().__init__(
            "tpuflex:tpu:QueuedResource",
            resource_name,
            {**inputs, **dict.fromkeys(_OUTPUTS)},
            _versioned(opts),
        )

    def translate_input_property(self, prop: str) -> str:
        """The name on the wire of the Python property ``prop``."""
        return _camel(prop)

    def translate_output_property(self, prop: str) -> str:
        """The Python name of the property that is called ``prop`` on the wire."""
        return re.sub(r"(?=[A-Z])", "_", prop).lower()


#: Properties that only the provider fills in.
_OUTPUTS = (
    "name",
    "state",
    "lifecycle",
    "zone",
    "node_id",
    "node_state",
    "health",
    "ip_addresses",
    "create_time",
    "active_time",
    "expire_time",
    "spec_hash",
)


def _camel(name: str) -> str:
    """The name on the wire of the property ``name``."""
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)


def _versioned(opts: pulumi.ResourceOptions | None) -> pulumi.ResourceOptions:
    """The version tells the engine which provider plugin goes with these classes."""
    return pulumi.ResourceOptions.merge(pulumi.ResourceOptions(version=__version__), opts)
