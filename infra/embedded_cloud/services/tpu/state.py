"""The TPU service's state: every call first applies the changes that are due by the clock."""

from __future__ import annotations

import dataclasses
import ipaddress

from embedded_cloud.core.errors import (
    CloudError,
    already_exists,
    failed_precondition,
    invalid_argument,
)
from embedded_cloud.core.json_types import JsonObject, child, children, flag, text
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Context
from embedded_cloud.core.strictness import OrganizationPolicies
from embedded_cloud.machines.hosts.spec import HostSpec
from embedded_cloud.services.cloudkms import KeyUse, disk_refusal, location_of
from embedded_cloud.services.compute.paths import region_of, relative
from embedded_cloud.services.compute.state import Resources
from embedded_cloud.services.iam.state import exists
from embedded_cloud.services.tpu import lifecycle, quota, validation
from embedded_cloud.services.tpu.capacity import CapacityBook, CapacityRule
from embedded_cloud.services.tpu.nodes import Nodes
from embedded_cloud.services.tpu.operations import Operations
from embedded_cloud.services.tpu.queue import Queue
from embedded_cloud.services.tpu.records import (
    Node,
    NodeState,
    Operation,
    Outcome,
    Place,
    QueuedResource,
    QueuedState,
)

#: Range of an automatic subnetwork (us-central1's; https://cloud.google.com/vpc/docs/subnets#ip-ranges).
_AUTOMATIC = "10.128.0.0/20"
#: Addresses at the beginning of a subnetwork that no host gets: the network's and the gateway's.
_RESERVED = 2


def private_addresses(node: Node, resources: Resources) -> tuple[str, ...]:
    """The addresses of ``node`` in its subnetwork, one for each of its loopback addresses.

    A node keeps them for its life: they follow from the loopback ones, of which each of an
    embedded cloud's nodes has its own.
    """
    subnetwork = text(child(node.spec, "networkConfig"), "subnetwork")
    if subnetwork and "/" not in subnetwork:
        # A bare name is that of the subnetwork in the region of the node's zone.
        subnetwork = f"regions/{region_of(node.zone)}/subnetworks/{subnetwork}"
    found = resources.get(str(relative(subnetwork, node.project))) if subnetwork else None
    network = ipaddress.ip_network(text(found or {}, "ipCidrRange") or _AUTOMATIC)
    return tuple(str(_within(network, address)) for address in node.addresses)


def _within(
    network: ipaddress.IPv4Network | ipaddress.IPv6Network, loopback: str
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    # 127.x.y.1 upwards: its last part numbers the hosts.
    number = int(loopback.rpartition(".")[2]) - 1
    room = network.num_addresses - _RESERVED - 1
    return network[_RESERVED + number % max(1, room)]


class ProjectRules:
    """Rules about nodes that the project or its organization makes, as strict as the cloud is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._keys = KeyUse(context)

    def check(self, place: Place, node_id: str, node: JsonObject) -> None:
        """Check a node, alone or inside a node spec.

        Raises:
            CloudError: 400, its service account is not known, the key of its boot disk cannot be
                used, or a policy forbids its address or that it has no Secure Boot.
        """
        self._check_secure_boot(node)
        self._check_service_account(text(child(node, "serviceAccount"), "email"))
        self._check_key(place, child(child(node, "bootDiskConfig"), "customerEncryptionKey"))
        if flag(child(node, "networkConfig"), "enableExternalIps"):
            self._check_external_address(place, node_id)

    @property
    def _policies(self) -> OrganizationPolicies:
        return self._context.strictness().organization_policies

    def _check_service_account(self, email: str) -> None:
        """The text is inferred: no public log shows what Cloud TPU answers."""
        delay = self._context.strictness().service_accounts.nodes_know_after_s
        if delay is None or not email:
            return
        if not exists(self._context.store, email, made_by=self._context.clock.now() - delay):
            raise invalid_argument(
                f"Cloud TPU received a bad request. Service account {email} does not exist."
            )

    def _check_key(self, place: Place, disk: JsonObject) -> None:
        """A TPU takes keys of its own region alone (https://cloud.google.com/tpu/docs/cmek-tpu).

        The texts are those of Compute Engine: no public log shows what Cloud TPU answers.
        """
        key, region = text(disk, "kmsKeyName"), place.zone.rpartition("-")[0]
        if not key:
            return
        why = disk_refusal(self._keys, key, region, project_number(place.project))
        if not why and location_of(key) != region:
            why = f"Cloud KMS error when using key {key}: The key must be in the region {region}."
        if why:
            raise invalid_argument(f"Cloud TPU received a bad request. {why}")

    def _check_secure_boot(self, node: JsonObject) -> None:
        """The text was seen: google/fully-homomorphic-encryption#103 on GitHub."""
        required = self._policies.enforces("compute.requireShieldedVm")
        if required and not flag(child(node, "shieldedInstanceConfig"), "enableSecureBoot"):
            raise invalid_argument(
                "Cloud TPU received a bad request. Constraint"
                " constraints/compute.requireShieldedVm violated. Please create TPUs with Secure"
                " Boot enabled or remove the Organization Policy Constraint."
            )

    def _check_external_address(self, place: Place, node_id: str) -> None:
        if self._policies.restricts("compute.vmExternalIpAccess"):
            raise external_address_forbidden(
                project_number(place.project), f"{place.parent}/nodes/{node_id}"
            )


def external_address_forbidden(project_number: str, name: str) -> CloudError:
    """400: seen of Compute Engine instances, as 412 there."""
    return failed_precondition(
        f"Constraint constraints/compute.vmExternalIpAccess violated for project {project_number}."
        f" Add instance {name} to the constraint to use external IP with it."
    )


class TpuState:
    """Queued resources, nodes and operations of all projects and zones.

    Every call first brings the state up to the clock's present time.
    """

    def __init__(self, context: Context, capacity: CapacityBook) -> None:
        self._project_rules = ProjectRules(context)
        self._clock = context.clock
        self._capacity = capacity
        self.nodes = Nodes(context, capacity)
        self.queue = Queue(context, capacity, self.nodes)
        self.operations = Operations(context.store, context.clock)
        self._resources = Resources(context.store, context.strictness)
        self._strictness = context.strictness

    def sync(self) -> None:
        """Apply everything that is due by now."""
        now = self._clock.now()
        self.queue.sync(now)
        # Several changes of one node may be due.
        while self.nodes.sync(now):
            pass

    def now(self) -> float:
        """The time, in epoch seconds."""
        return self._clock.now()

    def desired_hosts(self) -> list[HostSpec]:
        """The hosts that should be running now."""
        self.sync()
        return self.nodes.desired_hosts()

    def addresses(self, node: Node) -> tuple[str, ...]:
        """The addresses of ``node`` that clients see: where it is on loopback, or strictly those
        of its subnetwork."""
        if self._strictness().network.private_addresses:
            return private_addresses(node, self._resources)
        return node.addresses

    def create_queued_resource(
        self,
        place: Place,
        queued_id: str,
        spec: JsonObject,
        *,
        api_version: str,
        request_id: str = "",
    ) -> Operation:
        """Request TPUs. The operation is done when the request is in the queue.

        Raises:
            CloudError: 400 for an invalid request, 409 if the id is taken (also by a
                request that has ended), 429 if the quota is used up.
        """
        self._enter(place)
        repeated = self.operations.repeated(place, "create", "queuedResources", request_id)
        if repeated is not None:
            return repeated
        validation.check_id("queued_resource_id", queued_id)
        validation.check_queued_resource(place, spec)
        for node_spec in children(child(spec, "tpu"), "nodeSpec"):
            self._project_rules.check(place, queued_id, child(node_spec, "node"))
        queued = self.queue.add(place, queued_id, spec)
        takes_s, error = self._rule(place).admission_s, queued.rejection
        return self._begin(
            queued, "create", api_version, takes_s, error=error, request_id=request_id
        )

    def poll_queued_resource(self, place: Place, queued_id: str) -> QueuedResource:
        """One queued resource, counted as a poll; 404 if there is none."""
        self._enter(place)
        queued = self.queue.get(place, queued_id)
        if self.queue.poll(queued):
            self.sync()
            queued = self.queue.get(place, queued_id)
        return queued

    def list_queued_resources(self, place: Place) -> list[QueuedResource]:
        """The queued resources of a place; zone ``-`` means all zones."""
        self._enter(place, any_zone=True)
        return self.queue.in_place(place)

    def delete_queued_resource(
        self, place: Place, queued_id: str, *, force: bool, api_version: str, request_id: str = ""
    ) -> Operation:
        """Withdraw a request, or end it with ``force``. The operation is done when it is gone.

        Raises:
            CloudError: 404 if there is none, 400 code 9 if it cannot be deleted in its state.
        """
        self._enter(place)
        repeated = self.operations.repeated(place, "delete", "queuedResources", request_id)
        if repeated is not None:
            return repeated
        queued = self.queue.get(place, queued_id)
        self.queue.enter(lifecycle.deleting(queued, self._clock.now(), force=force))
        takes_s = self._rule(place).deleting_s
        return self._begin(
            queued, "delete", api_version, takes_s, Outcome.EMPTY, request_id=request_id
        )

    def reset_queued_resource(self, place: Place, queued_id: str, *, api_version: str) -> Operation:
        """Boot the nodes again; 400 code 9 unless the request is ACTIVE."""
        self._enter(place)
        queued = self.queue.get(place, queued_id)
        self.queue.reset(queued)
        return self._begin(queued, "reset", api_version, 0.0)

    def node(self, place: Place, node_id: str) -> Node:
        """One node; 404 if there is none."""
        self._enter(place)
        return self.nodes.get(place, node_id)

    def list_nodes(self, place: Place) -> list[Node]:
        """The nodes of a place; zone ``-`` means all zones."""
        self._enter(place, any_zone=True)
        return self.nodes.in_place(place)

    def create_node(
        self, place: Place, node_id: str, spec: JsonObject, *, api_version: str, request_id: str
    ) -> Operation:
        """Create a node on demand, without the queue. Without capacity the operation fails."""
        self._enter(place)
        repeated = self.operations.repeated(place, "create", "nodes", request_id)
        if repeated is not None:
            return repeated
        validation.check_id("node_id", node_id)
        validation.check_node(place, spec)
        self._project_rules.check(place, node_id, spec)
        name = f"{place.parent}/nodes/{node_id}"
        if self.nodes.find(name) is not None or node_id in self.queue.promised(place):
            raise already_exists(f"Resource '{name}' already exists")
        self.queue.check_quota(place, quota.of_node(place, spec))
        error = self._rule(place).node_failure(place.zone)
        snapshot = None
        if error is None:
            now = self._clock.now()
            node = self.nodes.create(place, node_id, spec, api_version=api_version, at=now)
            snapshot = node.to_json()
        return self.operations.begin(
            place,
            verb="create",
            target=name,
            api_version=api_version,
            takes_s=self._rule(place).provisioning_s,
            outcome=Outcome.NODE,
            error=error,
            snapshot=snapshot,
            request_id=request_id,
        )

    def delete_node(self, place: Place, node_id: str, *, api_version: str) -> Operation:
        """Delete a node; a queued resource that it belongs to is suspended."""
        node = self.node(place, node_id)
        now = self._clock.now()
        rule = self._rule(place)
        queued = self.queue.find(node.queued_resource) if node.queued_resource else None
        if queued is None:
            alone = dataclasses.replace(node, queued_resource="")
            self.nodes.enter(alone, NodeState.DELETING, now)
            return self._begin(node, "delete", api_version, rule.deleting_s, Outcome.EMPTY)
        if queued.state is not QueuedState.ACTIVE:
            raise failed_precondition(
                f"Node {node.name} cannot be deleted while its queued resource is {queued.state}"
            )
        self.queue.enter(lifecycle.suspended_by_user(queued, now))
        return self._begin(node, "delete", api_version, rule.suspending_s, Outcome.EMPTY)

    def stop_node(self, place: Place, node_id: str, *, api_version: str) -> Operation:
        """Stop a READY node: its hosts are shut down."""
        states = NodeState.READY, NodeState.STOPPING
        return self._switch(self.node(place, node_id), "stop", api_version, *states)

    def start_node(self, place: Place, node_id: str, *, api_version: str) -> Operation:
        """Start a STOPPED node: its hosts boot again."""
        states = NodeState.STOPPED, NodeState.STARTING
        return self._switch(self.node(place, node_id), "start", api_version, *states)

    def patch_node(
        self, place: Place, node_id: str, changes: JsonObject, *, mask: str, api_version: str
    ) -> Operation:
        """Change what can be changed of a node."""
        node = self.nodes.patch(self.node(place, node_id), changes, mask)
        return self._begin(node, "update", api_version, 0.0)

    def _switch(
        self, node: Node, verb: str, api_version: str, needed: NodeState, entered: NodeState
    ) -> Operation:
        self.nodes.require_state(node, verb.capitalize(), needed)
        self.nodes.enter(node, entered, self._clock.now())
        return self._begin(node, verb, api_version, self._rule(node.place).provisioning_s)

    def _enter(self, place: Place, *, any_zone: bool = False) -> None:
        """What every call does first: apply what is due, and check the zone."""
        self.sync()
        if not (any_zone and place.zone == "-"):
            validation.check_zone(place)

    def _begin(
        self,
        record: QueuedResource | Node,
        verb: str,
        api_version: str,
        takes_s: float,
        outcome: Outcome | None = None,
        *,
        error: tuple[str, str] | None = None,
        request_id: str = "",
    ) -> Operation:
        """An operation whose response is ``record``, or nothing if ``outcome`` is EMPTY."""
        kind = Outcome.NODE if isinstance(record, Node) else Outcome.QUEUED_RESOURCE
        return self.operations.begin(
            record.place,
            verb=verb,
            target=record.name,
            api_version=api_version,
            takes_s=takes_s,
            outcome=outcome or kind,
            error=error,
            snapshot=record.to_json() if outcome is None else None,
            request_id=request_id,
        )

    def _rule(self, place: Place) -> CapacityRule:
        return self._capacity.current().rule(place.zone)
