"""Paths and lists of the TPU API, and records as its JSON, for v2alpha1 and v2."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from embedded_cloud.core.clock import rfc3339
from embedded_cloud.core.contract import Contract
from embedded_cloud.core.errors import cloud_error
from embedded_cloud.core.json_types import JsonObject, JsonValue, child, children, text
from embedded_cloud.core.paging import Paging
from embedded_cloud.core.projects import default_service_account, project_number
from embedded_cloud.core.routing import Call
from embedded_cloud.services.tpu import validation
from embedded_cloud.services.tpu.nodes import CLOUD_PLATFORM
from embedded_cloud.services.tpu.records import (
    Node,
    NodeState,
    Operation,
    Outcome,
    Place,
    QueuedResource,
    QueuedState,
    numeric_id,
)

PAGING = Paging(default=100, maximum=1000)

#: The port that TPU nodes name in their endpoints.
_TPU_PORT = 8470

_WITHOUT_ADDRESS = frozenset({NodeState.CREATING, NodeState.DELETING, NodeState.PREEMPTED})
_STATE_DATA = {
    QueuedState.CREATING: "creatingData",
    QueuedState.WAITING: "",
    QueuedState.PROVISIONING: "provisioningData",
    QueuedState.ACTIVE: "activeData",
    QueuedState.SUSPENDING: "suspendingData",
    QueuedState.SUSPENDED: "suspendedData",
    QueuedState.FAILED: "failedData",
    QueuedState.DELETING: "deletingData",
}


def place_of(call: Call) -> Place:
    """The project and zone in the path."""
    return Place(call.params["project"], call.params["location"])


@dataclass(frozen=True, slots=True)
class ApiVersion:
    """One version of the TPU API.

    Attributes:
        name: ``v2alpha1`` or ``v2``.
        addresses: what a node's addresses are for clients.
    """

    name: str
    addresses: Callable[[Node], tuple[str, ...]]

    @property
    def node_api_version(self) -> str:
        """What nodes created through this version say in ``apiVersion``."""
        return {"v2alpha1": "V2_ALPHA1", "v2": "V2"}[self.name]

    def read_queued_resource(self, body: JsonObject) -> JsonObject:
        """A request's queued resource in v2alpha1 spelling."""
        spec = copy.deepcopy(body)
        for node_spec in children(child(spec, "tpu"), "nodeSpec"):
            if "multisliceParams" in node_spec:
                node_spec["multiNodeParams"] = node_spec.pop("multisliceParams")
        return spec

    def queued_resource(self, queued: QueuedResource) -> JsonObject:
        """A queued resource."""
        shown = copy.deepcopy(queued.spec)
        if self.name == "v2":
            for node_spec in children(child(shown, "tpu"), "nodeSpec"):
                if "multiNodeParams" in node_spec:
                    node_spec["multisliceParams"] = node_spec.pop("multiNodeParams")
        shown |= {
            "name": queued.name,
            "createTime": rfc3339(queued.created_at),
            "state": _queued_state(queued),
        }
        return self._visible("QueuedResource", shown)

    def node(self, node: Node) -> JsonObject:
        """A node."""
        number = project_number(node.project)
        accelerator = validation.accelerator_of(node.place, node.spec)
        shown = copy.deepcopy(node.spec)
        account = child(shown, "serviceAccount")
        shown |= {
            "name": node.name,
            "id": numeric_id(node.name, node.created_at),
            "createTime": rfc3339(node.created_at),
            "state": node.state.value,
            "apiVersion": node.api_version,
            "acceleratorType": accelerator.name,
            "acceleratorConfig": {
                "type": accelerator.config_type,
                "topology": accelerator.topology,
            },
            "serviceAccount": {
                "email": text(account, "email") or default_service_account(number),
                "scope": account.get("scope") or [CLOUD_PLATFORM],
            },
        }
        if node.state is NodeState.READY:
            shown["health"] = "HEALTHY"
        if node.queued_resource:
            shown["queuedResource"] = node.queued_resource
        if node.state not in _WITHOUT_ADDRESS:
            shown["networkEndpoints"] = self._endpoints(node)
        if "networkConfigs" not in shown:
            shown["networkConfig"] = {
                "network": f"projects/{node.project}/global/networks/default",
                "subnetwork": "",
                **child(shown, "networkConfig"),
            }
        if self.name == "v2" and shown["apiVersion"] == "V2_ALPHA1":
            shown["apiVersion"] = "V2"
        return self._visible("Node", shown)

    def operation(
        self,
        operation: Operation,
        *,
        done: bool,
        find_queued_resource: Callable[[str], QueuedResource | None],
        find_node: Callable[[str], Node | None],
    ) -> JsonObject:
        """An operation, with what it resulted in when ``done``."""
        metadata: JsonObject = {
            "@type": self._type("OperationMetadata"),
            "createTime": rfc3339(operation.created_at),
            "target": operation.target,
            "verb": operation.verb,
            "cancelRequested": False,
            "apiVersion": operation.api_version,
        }
        shown: JsonObject = {"name": operation.name, "metadata": metadata, "done": done}
        if not done:
            return shown
        metadata["endTime"] = rfc3339(operation.done_at)
        if operation.error is not None:
            shown["error"] = cloud_error(*operation.error).status()
        elif operation.outcome is Outcome.QUEUED_RESOURCE:
            queued = find_queued_resource(operation.target)
            queued = queued or QueuedResource.from_json(operation.snapshot or {})
            shown["response"] = {
                "@type": self._type("QueuedResource"),
                **self.queued_resource(queued),
            }
        elif operation.outcome is Outcome.NODE:
            node = find_node(operation.target) or Node.from_json(operation.snapshot or {})
            shown["response"] = {"@type": self._type("Node"), **self.node(node)}
        else:
            shown["response"] = {"@type": "type.googleapis.com/google.protobuf.Empty"}
        return shown

    def _type(self, message: str) -> str:
        return f"type.googleapis.com/google.cloud.tpu.{self.name}.{message}"

    def _visible(self, schema: str, value: JsonObject) -> JsonObject:
        """Only the fields of this version: v2 knows no run duration, for example."""
        return Contract.load("tpu", self.name).visible(schema, value)

    def _endpoints(self, node: Node) -> list[JsonValue]:
        external = validation.external_ip(node.spec)
        return [
            {
                "ipAddress": address,
                "port": _TPU_PORT,
                # There is nothing outside of loopback: the external address is the same.
                **({"accessConfig": {"externalIp": address}} if external else {}),
            }
            for address in self.addresses(node)
        ]


def _queued_state(queued: QueuedResource) -> JsonObject:
    shown: JsonObject = {"state": queued.state.value, "stateInitiator": queued.initiator.value}
    data = _STATE_DATA.get(queued.state, "")
    if data:
        shown[data] = {}
    if queued.state is QueuedState.FAILED and queued.error is not None:
        shown["failedData"] = {"error": cloud_error(*queued.error).status()}
    return shown
