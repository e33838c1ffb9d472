"""HTTP calls on v1 of the TPU API: the reads that gcloud's GA commands make.

v1 manages TPU nodes of the old architecture, which no accelerator here has. Methods that change
one are answered with 404, not with 501: gcloud retries a 501 for half a minute.
"""

from __future__ import annotations

from embedded_cloud.contract import Contract
from embedded_cloud.errors import not_found
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.routing import Call, Reply
from embedded_cloud.tpu import validation
from embedded_cloud.tpu.catalog_handlers import CatalogHandlers
from embedded_cloud.tpu.records import Node
from embedded_cloud.tpu.state import TpuState
from embedded_cloud.tpu.wire import PAGING, ApiVersion, place_of


class V1Handlers:
    """Handlers of v1.

    Args:
        state: the state that all versions share.
        catalog: handlers of locations and accelerator types.
        version: a later version, whose nodes are converted to v1's form.
    """

    def __init__(self, state: TpuState, catalog: CatalogHandlers, version: ApiVersion) -> None:
        self._state = state
        self._catalog = catalog
        self._version = version

    def get_node(self, call: Call) -> Reply:
        """``nodes.get``."""
        return Reply(body=self._node(self._state.node(place_of(call), call.id)))

    def list_nodes(self, call: Call) -> Reply:
        """``nodes.list``."""
        nodes = self._state.list_nodes(place_of(call))
        return PAGING.reply(call, "nodes", nodes, lambda node: node.name, self._node)

    def get_accelerator_type(self, call: Call) -> Reply:
        """``acceleratorTypes.get``."""
        return _visible("AcceleratorType", self._catalog.get_accelerator_type(call))

    def list_accelerator_types(self, call: Call) -> Reply:
        """``acceleratorTypes.list``."""
        return _visible("ListAcceleratorTypesResponse", self._catalog.list_accelerator_types(call))

    def get_tensorflow_version(self, call: Call) -> Reply:
        """``tensorflowVersions.get``: there are none any more."""
        place = place_of(call)
        validation.check_zone(place)
        name = f"{place.parent}/tensorflowVersions/{call.id}"
        raise not_found(f"Resource '{name}' was not found")

    def list_tensorflow_versions(self, call: Call) -> Reply:
        """``tensorflowVersions.list``."""
        validation.check_zone(place_of(call))
        return Reply(body={})

    def refuse(self, call: Call) -> Reply:
        """Methods that would change a node of the old architecture."""
        raise not_found(
            f"The embedded cloud does not implement {call.method_id} of TPU API v1; use v2: "
            "gcloud compute tpus tpu-vm, or gcloud alpha compute tpus queued-resources."
        )

    def _node(self, node: Node) -> JsonObject:
        shown = self._version.node(node)
        account, network = child(shown, "serviceAccount"), child(shown, "networkConfig")
        # v1's enum has no value for v2.
        shown |= {"apiVersion": "V2_ALPHA1", "serviceAccount": text(account, "email")}
        shown |= {"network": text(network, "network")}
        return Contract.load("tpu", "v1").visible("Node", shown)


def _visible(schema: str, reply: Reply) -> Reply:
    body = reply.body
    if not isinstance(body, dict):
        return reply
    return Reply(body=Contract.load("tpu", "v1").visible(schema, body))
