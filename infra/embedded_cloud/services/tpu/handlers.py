"""HTTP calls on queued resources, nodes and operations turned into calls on the state."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from embedded_cloud.core.clock import Clock
from embedded_cloud.core.errors import invalid_argument, not_found
from embedded_cloud.core.json_types import JsonObject, JsonValue, text, texts
from embedded_cloud.core.routing import Call, Reply
from embedded_cloud.core.strictness import Strictness
from embedded_cloud.machines.hosts.guest_attributes import POLICY, GuestAttributes, forbidden
from embedded_cloud.services.tpu.records import Node, Operation
from embedded_cloud.services.tpu.state import TpuState
from embedded_cloud.services.tpu.wire import PAGING, ApiVersion, place_of


class TpuHandlers:
    """Handlers of one version of the API over the state that all versions share."""

    def __init__(
        self,
        state: TpuState,
        version: ApiVersion,
        guest: GuestAttributes,
        clock: Clock,
        strictness: Callable[[], Strictness],
    ) -> None:
        self._state = state
        self._version = version
        self._guest = guest
        self._clock = clock
        self._strictness = strictness

    def create_queued_resource(self, call: Call) -> Reply:
        """``queuedResources.create``."""
        place = place_of(call)
        queued_id = call.query.get("queuedResourceId") or self._generated_id("qr")
        spec = self._version.read_queued_resource(call.body or {})
        return self._begun(
            self._state.create_queued_resource(
                place,
                queued_id,
                spec,
                api_version=self._version.name,
                request_id=call.query.get("requestId", ""),
            )
        )

    def get_queued_resource(self, call: Call) -> Reply:
        """``queuedResources.get``."""
        queued = self._state.poll_queued_resource(place_of(call), call.id)
        return Reply(body=self._version.queued_resource(queued))

    def list_queued_resources(self, call: Call) -> Reply:
        """``queuedResources.list``."""
        queued = self._state.list_queued_resources(place_of(call))
        return PAGING.reply(
            call, "queuedResources", queued, lambda q: q.name, self._version.queued_resource
        )

    def delete_queued_resource(self, call: Call) -> Reply:
        """``queuedResources.delete``."""
        return self._begun(
            self._state.delete_queued_resource(
                place_of(call),
                call.id,
                force=call.query.get("force", "").lower() == "true",
                api_version=self._version.name,
                request_id=call.query.get("requestId", ""),
            )
        )

    def reset_queued_resource(self, call: Call) -> Reply:
        """``queuedResources.reset``."""
        return self._begun(
            self._state.reset_queued_resource(
                place_of(call), call.id, api_version=self._version.name
            )
        )

    def create_node(self, call: Call) -> Reply:
        """``nodes.create``."""
        return self._begun(
            self._state.create_node(
                place_of(call),
                call.query.get("nodeId") or self._generated_id("node"),
                call.body or {},
                api_version=self._version.node_api_version,
                request_id=call.query.get("requestId", ""),
            )
        )

    def get_node(self, call: Call) -> Reply:
        """``nodes.get``."""
        node = self._state.node(place_of(call), call.id)
        return Reply(body=self._version.node(node))

    def list_nodes(self, call: Call) -> Reply:
        """``nodes.list``."""
        nodes = self._state.list_nodes(place_of(call))
        return PAGING.reply(call, "nodes", nodes, lambda node: node.name, self._version.node)

    def delete_node(self, call: Call) -> Reply:
        """``nodes.delete``."""
        return self._node_action(call, self._state.delete_node)

    def stop_node(self, call: Call) -> Reply:
        """``nodes.stop``."""
        return self._node_action(call, self._state.stop_node)

    def start_node(self, call: Call) -> Reply:
        """``nodes.start``."""
        return self._node_action(call, self._state.start_node)

    def patch_node(self, call: Call) -> Reply:
        """``nodes.patch``."""
        mask = call.query.get("updateMask", "")
        if not mask:
            raise invalid_argument("update_mask is required.")
        return self._begun(
            self._state.patch_node(
                place_of(call),
                call.id,
                call.body or {},
                mask=mask,
                api_version=self._version.name,
            )
        )

    def get_guest_attributes(self, call: Call) -> Reply:
        """``nodes.getGuestAttributes``."""
        node = self._state.node(place_of(call), call.id)
        strictness = self._strictness()
        if forbidden(strictness):
            # In the words of other policies: google/fully-homomorphic-encryption#103 on GitHub.
            raise invalid_argument(
                "Cloud TPU received a bad request."
                f" Constraint constraints/{POLICY} violated for project {node.project}."
            )
        body = call.body or {}
        workers = _workers(node, texts(body, "workerIds"))
        path = text(body, "queryPath")
        answers: list[JsonValue] = []
        for worker in workers:
            items: list[JsonValue] = [
                {"namespace": namespace, "key": key, "value": value}
                for namespace, key, value in self._guest.query(node.name, worker, path)
            ]
            if not items and strictness.guest_attributes.unknown_answers_404:
                # As Compute Engine answers for a virtual machine of one's own.
                raise not_found(f"The resource '{path}' of type 'Guest Attribute' was not found.")
            answers.append({"queryPath": path, "queryValue": {"items": items}})
        return Reply(body={"guestAttributes": answers})

    def get_operation(self, call: Call) -> Reply:
        """``operations.get``."""
        self._state.sync()
        operation = self._state.operations.get(place_of(call), call.id)
        return Reply(body=self._operation(operation))

    def list_operations(self, call: Call) -> Reply:
        """``operations.list``."""
        self._state.sync()
        operations = self._state.operations.in_place(place_of(call))
        return PAGING.reply(call, "operations", operations, lambda op: op.name, self._operation)

    def _node_action(self, call: Call, action: Callable[..., Operation]) -> Reply:
        operation = action(place_of(call), call.id, api_version=self._version.name)
        return self._begun(operation)

    def _begun(self, operation: Operation) -> Reply:
        return Reply(body=self._operation(operation))

    def _operation(self, operation: Operation) -> JsonObject:
        return self._version.operation(
            operation,
            done=self._state.operations.is_done(operation),
            find_queued_resource=self._state.queue.find,
            find_node=self._state.nodes.find,
        )

    def _generated_id(self, prefix: str) -> str:
        """An id for a request that has none, as the service generates one."""
        return f"{prefix}-{hashlib.sha256(repr(self._clock.now()).encode()).hexdigest()[:12]}"


def _workers(node: Node, asked: list[str]) -> list[int]:
    # gcloud asks for all workers by one empty id (its tpu_vm/util.py, `GetGuestAttributes`).
    asked = [worker for worker in asked if worker]
    if not asked:
        return list(range(len(node.addresses)))
    for worker in asked:
        if not worker.isdecimal() or int(worker) >= len(node.addresses):
            raise invalid_argument(f"Node {node.name} has no worker {worker!r}.")
    return [int(worker) for worker in asked]
