"""The nodes of the TPU service, created by queued resources or on their own."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from embedded_cloud.core.contract_schema import snake
from embedded_cloud.core.errors import (
    already_exists,
    failed_precondition,
    invalid_argument,
    not_found,
)
from embedded_cloud.core.json_types import JsonObject, child, flag, string_map, text, texts
from embedded_cloud.core.projects import default_service_account, project_number
from embedded_cloud.core.routing import Context
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.machines.hosts.spec import HostSpec, TpuWorker, free_addresses
from embedded_cloud.services.tpu import lifecycle, validation
from embedded_cloud.services.tpu.capacity import CapacityBook
from embedded_cloud.services.tpu.records import (
    Node,
    NodeState,
    Place,
    numeric_id,
)

CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"

#: Node fields that ``nodes.patch`` can change (documentation of updateMask).
PATCHABLE = frozenset(
    {"description", "tags", "labels", "metadata", "network_config.enable_external_ips"}
)

_STATES_WITH_HOST = frozenset({NodeState.READY})


class Nodes:
    """The nodes of all places."""

    def __init__(self, context: Context, capacity: CapacityBook) -> None:
        self._context = context
        self._store = context.store
        self._capacity = capacity
        self._guest = GuestAttributes(context.store)

    def get(self, place: Place, node_id: str) -> Node:
        """One node; 404 if there is none."""
        name = f"{place.parent}/nodes/{node_id}"
        node = self.find(name)
        if node is None:
            raise not_found(f"Resource '{name}' was not found")
        return node

    def find(self, name: str) -> Node | None:
        """The node of that full name, or ``None``."""
        document = self._store.get(Node.collection, name)
        return None if document is None else Node.from_json(document)

    def in_place(self, place: Place) -> list[Node]:
        """The nodes of a place; zone ``-`` means all zones."""
        return [
            node
            for node in self.all(f"projects/{place.project}/locations/")
            if node.zone == place.zone or place.zone == "-"
        ]

    def all(self, prefix: str = "") -> Iterator[Node]:
        """The nodes whose full name starts with ``prefix``."""
        for _, document in self._store.list(Node.collection, prefix):
            yield Node.from_json(document)

    def of_queued_resource(self, name: str) -> list[Node]:
        """The nodes that belong to a queued resource."""
        return [node for node in self.all() if node.queued_resource == name]

    def create(
        self,
        place: Place,
        node_id: str,
        spec: JsonObject,
        *,
        api_version: str,
        at: float,
        queued_resource: str = "",
    ) -> Node:
        """Create a node at time ``at``; 409 if the id is taken."""
        name = f"{place.parent}/nodes/{node_id}"
        if self.find(name) is not None:
            raise already_exists(f"Resource '{name}' already exists")
        accelerator = validation.accelerator_of(place, spec)
        # A host that was being ended may have set some after its node was removed.
        self._guest.clear(name)
        node = Node(
            project=place.project,
            zone=place.zone,
            id=node_id,
            spec=spec,
            api_version=api_version,
            created_at=at,
            since=at,
            queued_resource=queued_resource,
            host_key=self._host_key(place, node_id),
            addresses=tuple(
                free_addresses(self._store, self._context.base_url(), accelerator.workers)
            ),
        )
        self.put(node)
        return node

    def enter(self, node: Node, state: NodeState, at: float) -> Node:
        """Put ``node`` in ``state`` at time ``at``."""
        entered = lifecycle.enter_node(node, state, at)
        self.put(entered)
        return entered

    def require_state(self, node: Node, action: str, *allowed: NodeState) -> None:
        """400 FAILED_PRECONDITION unless ``node`` is in one of the states."""
        if node.state not in allowed:
            raise failed_precondition(
                f"{action} of node {node.name} is not supported when state is {node.state} "
                f"(must be one of [{' '.join(allowed)}])"
            )

    def patch(self, node: Node, changes: JsonObject, mask: str) -> Node:
        """Change the fields named by ``mask``; 400 for fields that cannot change."""
        spec = dict(node.spec)
        for field in filter(None, (part.strip() for part in mask.split(","))):
            if snake(field) not in PATCHABLE:
                raise invalid_argument(f"Field {field!r} in update_mask cannot be updated.")
            _copy_field(spec, changes, snake(field))
        validation.check_node(node.place, spec)
        patched = dataclasses.replace(node, spec=spec)
        self.put(patched)
        return patched

    def sync(self, now: float) -> bool:
        """Apply what is due to nodes without queued resource; true if anything changed."""
        changed = False
        for node in list(self.all()):
            rule = self._capacity.current().rule(node.zone)
            gone_at = lifecycle.node_gone_at(node, rule)
            if gone_at is not None and gone_at <= now:
                self.remove(node)
                changed = True
                continue
            following = lifecycle.next_node_change(node, rule)
            if following is not None and following.since <= now:
                self.put(following)
                changed = True
        return changed

    def put(self, node: Node) -> None:
        """Store ``node`` and wake the hosts."""
        self._store.put(Node.collection, node.name, node.to_json())
        self._context.hosts.wake()

    def remove(self, node: Node) -> None:
        """Delete ``node`` and wake the hosts."""
        self._store.delete(Node.collection, node.name)
        self._guest.clear(node.name)
        self._context.hosts.wake()

    def desired_hosts(self) -> list[HostSpec]:
        """The hosts that should run: every worker of every READY node."""
        return [
            spec
            for node in self.all()
            if node.state in _STATES_WITH_HOST
            for spec in self._hosts_of(node)
        ]

    def _hosts_of(self, node: Node) -> Iterator[HostSpec]:
        accelerator = validation.accelerator_of(node.place, node.spec)
        account = child(node.spec, "serviceAccount")
        number = project_number(node.project)
        tpu = TpuWorker(node.id, node.addresses, accelerator.name, accelerator.topology)
        for worker, address in enumerate(node.addresses):
            instance_id = numeric_id(f"{node.name}/{worker}", node.created_at)
            yield HostSpec(
                key=node.host_key if worker == 0 else f"{node.host_key}-w{worker}",
                owner=node.name,
                name=_vm_name(instance_id, worker),
                instance_id=instance_id,
                worker=worker,
                address=address,
                project=node.project,
                project_number=number,
                zone=node.zone,
                machine_type=accelerator.machine_type,
                service_account=text(account, "email") or default_service_account(number),
                scopes=tuple(texts(account, "scope")) or (CLOUD_PLATFORM,),
                metadata=string_map(node.spec, "metadata"),
                description=text(node.spec, "description"),
                boot_id=f"{node.created_at}/{node.since}",
                secure_boot=flag(child(node.spec, "shieldedInstanceConfig"), "enableSecureBoot"),
                tpu=tpu,
            )

    def _host_key(self, place: Place, node_id: str) -> str:
        """The node's id, with zone and project where another node has the same id."""
        taken = {node.host_key for node in self.all()}
        keys = (node_id, f"{node_id}.{place.zone}", f"{node_id}.{place.zone}.{place.project}")
        return next(key for key in keys if key not in taken)


def _vm_name(instance_id: str, worker: int) -> str:
    """The short name of a worker's machine, as TPU VMs are called: ``t1v-n-<hex>-w-<worker>``."""
    return f"t1v-n-{int(instance_id) & 0xFFFFFFFF:08x}-w-{worker}"


def _copy_field(spec: JsonObject, changes: JsonObject, field: str) -> None:
    if field == "network_config.enable_external_ips":
        network = dict(child(spec, "networkConfig"))
        external = child(changes, "networkConfig").get("enableExternalIps", False)
        network["enableExternalIps"] = external
        spec["networkConfig"] = network
    elif field in changes:
        spec[field] = changes[field]
    else:
        spec.pop(field, None)
