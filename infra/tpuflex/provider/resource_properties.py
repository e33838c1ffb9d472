"""The properties of a queued resource, as a program sees them.

What is inside of a property has the names that it has on the wire, such as ``diskSizeGb``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi


class QueuedResourceProperties(pulumi.CustomResource):
    """What a queued resource was asked for, and what Google says about it."""

    zones: pulumi.Output[Sequence[str]] = pulumi.property("zones")
    """Zones in which capacity is asked for, such as us-east5-a."""
    runtime_version: pulumi.Output[str] = pulumi.property("runtimeVersion")
    """TPU software version, such as v2-alpha-tpuv6e."""
    service_account: pulumi.Output[str] = pulumi.property("serviceAccount")
    """Email address of the service account that the hosts run as."""
    accelerator_type: pulumi.Output[str | None] = pulumi.property("acceleratorType")
    """Accelerator type such as v6e-4 (four v6e chips)."""
    accelerator_config: pulumi.Output[Mapping[str, Any] | None] = pulumi.property(
        "acceleratorConfig"
    )
    """The accelerator by its kind and shape."""
    max_run_duration: pulumi.Output[str | None] = pulumi.property("maxRunDuration")
    """After this time Google deletes the hosts, whatever they do."""
    termination_time: pulumi.Output[str | None] = pulumi.property("terminationTime")
    """At this time Google deletes the hosts, whatever they do (RFC 3339), at most 7 days from
    now."""
    queued_resource_id: pulumi.Output[str] = pulumi.property("queuedResourceId")
    """Id of the queued resource within its zone."""
    queued_resource_id_prefix: pulumi.Output[str | None] = pulumi.property("queuedResourceIdPrefix")
    """What ids are made of."""
    project: pulumi.Output[str] = pulumi.property("project")
    """Google Cloud project id."""
    network: pulumi.Output[str | None] = pulumi.property("network")
    """VPC network, by name or full path."""
    subnetwork: pulumi.Output[str | None] = pulumi.property("subnetwork")
    """Subnetwork, by name or full path."""
    external_ips: pulumi.Output[bool] = pulumi.property("externalIps")
    """Whether the hosts get external IP addresses."""
    can_ip_forward: pulumi.Output[bool] = pulumi.property("canIpForward")
    """Whether the hosts may send and receive packets with other source or destination addresses, as
    routers do."""
    queue_count: pulumi.Output[int | None] = pulumi.property("queueCount")
    """Number of queues of the hosts' network interface."""
    network_configs: pulumi.Output[Sequence[Mapping[str, Any]]] = pulumi.property("networkConfigs")
    """Several network interfaces, instead of `network` and `subnetwork`."""
    cidr_block: pulumi.Output[str | None] = pulumi.property("cidrBlock")
    """Block of addresses for the hosts, a /29 such as 10.240.0.0/29."""
    scopes: pulumi.Output[Sequence[str]] = pulumi.property("scopes")
    """OAuth scopes of the hosts' service account."""
    tags: pulumi.Output[Sequence[str]] = pulumi.property("tags")
    """Network tags of the hosts, by which firewall rules find them."""
    labels: pulumi.Output[Mapping[str, str]] = pulumi.property("labels")
    """Labels of the node, at most 63."""
    metadata: pulumi.Output[Mapping[str, str]] = pulumi.property("metadata")
    """Metadata of the hosts, at most 256 KiB per value and 512 KiB in all."""
    on_boot_change: pulumi.Output[str] = pulumi.property("onBootChange")
    """What a changed `startup-script` or `tpuflex-config` does."""
    description: pulumi.Output[str | None] = pulumi.property("description")
    """Text for people, at most 512 characters."""
    secure_boot: pulumi.Output[bool] = pulumi.property("secureBoot")
    """Whether the hosts verify what they boot."""
    autocheckpoint_enabled: pulumi.Output[bool] = pulumi.property("autocheckpointEnabled")
    """Whether frameworks that support Autocheckpoint are told of coming maintenance."""
    data_disks: pulumi.Output[Sequence[Mapping[str, Any]]] = pulumi.property("dataDisks")
    """Disks that exist already, to be attached to the hosts."""
    boot_disk: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("bootDisk")
    """The disk that the hosts boot from."""
    provisioning_model: pulumi.Output[str] = pulumi.property("provisioningModel")
    """How capacity is obtained."""
    reservation_name: pulumi.Output[str | None] = pulumi.property("reservationName")
    """Reservation to take the capacity from, `projects/P/locations/Z/reservations/R`."""
    best_effort: pulumi.Output[bool] = pulumi.property("bestEffort")
    """Whether to ask in the best-effort tier, whose hosts may be taken back at any time."""
    guaranteed: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("guaranteed")
    """Ask in the guaranteed tier, on these terms."""
    valid_until_duration: pulumi.Output[str | None] = pulumi.property("validUntilDuration")
    """Give the request up after this time in the queue."""
    valid_until_time: pulumi.Output[str | None] = pulumi.property("validUntilTime")
    """Give the request up at this time (RFC 3339)."""
    valid_after_duration: pulumi.Output[str | None] = pulumi.property("validAfterDuration")
    """Make no hosts before this time has passed."""
    valid_after_time: pulumi.Output[str | None] = pulumi.property("validAfterTime")
    """Make no hosts before this time (RFC 3339)."""
    valid_interval: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("validInterval")
    """Make hosts only within this span of time."""
    multi_node: pulumi.Output[Mapping[str, Any] | None] = pulumi.property("multiNode")
    """Ask for several nodes (slices of the same shape) instead of one, which has the id of the
    queued resource."""
    strategy: pulumi.Output[str] = pulumi.property("strategy")
    """How several zones are asked."""
    queue_timeout: pulumi.Output[str] = pulumi.property("queueTimeout")
    """How long to wait in the queue."""
    provisioning_timeout: pulumi.Output[str] = pulumi.property("provisioningTimeout")
    """How long the hosts may take to be made once capacity was granted."""
    delete_timeout: pulumi.Output[str] = pulumi.property("deleteTimeout")
    """How long a deletion may take."""
    renew_before: pulumi.Output[str | None] = pulumi.property("renewBefore")
    """Plan a new run once less than this is left of the present one, or it is over."""
    rerun: pulumi.Output[str | None] = pulumi.property("rerun")
    """Any text."""
    on_run_end: pulumi.Output[str] = pulumi.property("onRunEnd")
    """What the next `pulumi up` does with the leftover of a run that is over, which still uses
    quota."""
    deletion_protection: pulumi.Output[bool] = pulumi.property("deletionProtection")
    """Whether deleting or replacing it is refused while it is ACTIVE."""

    name: pulumi.Output[str] = pulumi.property("name")
    """Full resource name, `projects/P/locations/Z/queuedResources/ID`."""
    state: pulumi.Output[str] = pulumi.property("state")
    """Google's word for the state, such as WAITING_FOR_RESOURCES."""
    lifecycle: pulumi.Output[str] = pulumi.property("lifecycle")
    """Where it stands: waiting, provisioning, active, ended, failed, lost or deleting."""
    zone: pulumi.Output[str] = pulumi.property("zone")
    """Zone in which the request was placed."""
    node_id: pulumi.Output[str] = pulumi.property("nodeId")
    """Id of the node; of several, of the first (see `nodes`)."""
    node_state: pulumi.Output[str | None] = pulumi.property("nodeState")
    """Google's word for the node's state, while there is a node; of several, of the first that
    is not READY."""
    health: pulumi.Output[str | None] = pulumi.property("health")
    """Google's word for the node's health, while there is a node; of several, of the first that
    is not HEALTHY."""
    nodes: pulumi.Output[Sequence[Mapping[str, Any]] | None] = pulumi.property("nodes")
    """Each node of the request, in the order of Google's numbers; until it is made, only its
    id."""
    ip_addresses: pulumi.Output[Sequence[str]] = pulumi.property("ipAddresses")
    """Internal IP address of each host, node by node."""
    create_time: pulumi.Output[str | None] = pulumi.property("createTime")
    """When the request was placed (RFC 3339)."""
    active_time: pulumi.Output[str | None] = pulumi.property("activeTime")
    """When the (last) node was made (RFC 3339)."""
    expire_time: pulumi.Output[str | None] = pulumi.property("expireTime")
    """When the run ends at the latest (RFC 3339)."""
    spec_hash: pulumi.Output[str | None] = pulumi.property("specHash")
    """Fingerprint of all that cannot be changed in place."""
    requests: pulumi.Output[Sequence[str] | None] = pulumi.property("requests")
    """Full name of every request that exists or may exist: this one, and those in other zones that
    are still to be deleted."""
