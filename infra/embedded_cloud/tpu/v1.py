"""Version v1 of the TPU API, as far as it only reads: what gcloud's GA commands look at.

v1 made TPU nodes of the old architecture, which no accelerator here has. What would change
one of them is answered with 404, not with 501: gcloud tries a 501 again for half a minute.
"""

from __future__ import annotations

from embedded_cloud.contract import Contract
from embedded_cloud.errors import not_found
from embedded_cloud.json_types import JsonObject, child, text
from embedded_cloud.routing import Call, Handler, Reply, Route
from embedded_cloud.tpu import validation
from embedded_cloud.tpu.catalog_handlers import CatalogHandlers
from embedded_cloud.tpu.records import Node
from embedded_cloud.tpu.requests import page_reply, place_of
from embedded_cloud.tpu.state import TpuState
from embedded_cloud.tpu.wire import Version


class OldHandlers:
    """Handlers of v1.

    Args:
        state: the state that all versions share.
        catalog: handlers of what the API says about zones.
        version: a later version, whose nodes are shown in v1's form.
    """

    def __init__(self, state: TpuState, catalog: CatalogHandlers, version: Version) -> None:
        self._state = state
        self._catalog = catalog
        self._version = version

    def get_node(self, call: Call) -> Reply:
        """``nodes.get``."""
        return Reply(body=self._node(self._state.node(place_of(call), call.params["id"])))

    def list_nodes(self, call: Call) -> Reply:
        """``nodes.list``."""
        found = self._state.list_nodes(place_of(call))
        return page_reply(call, "nodes", found, lambda node: node.name, self._node)

    def get_accelerator_type(self, call: Call) -> Reply:
        """``acceleratorTypes.get``."""
        return _visible("AcceleratorType", self._catalog.get_accelerator_type(call))

    def list_accelerator_types(self, call: Call) -> Reply:
        """``acceleratorTypes.list``."""
        return _visible("ListAcceleratorTypesResponse", self._catalog.list_accelerator_types(call))

    def get_tensorflow_version(self, call: Call) -> Reply:
        """``tensorflowVersions.get``: none of the old architecture's versions is left."""
        place = place_of(call)
        validation.check_zone(place)
        name = f"{place.parent}/tensorflowVersions/{call.params['id']}"
        raise not_found(f"Resource '{name}' was not found")

    def list_tensorflow_versions(self, call: Call) -> Reply:
        """``tensorflowVersions.list``."""
        validation.check_zone(place_of(call))
        return Reply(body={})

    def refuse(self, call: Call) -> Reply:
        """Everything that would change a node of the old architecture."""
        raise not_found(
            f"The embedded cloud does not implement {call.method_id} of TPU API v1; use v2: "
            "gcloud compute tpus tpu-vm, or gcloud alpha compute tpus queued-resources."
        )

    def _node(self, node: Node) -> JsonObject:
        shown = self._version.node(node)
        account, network = child(shown, "serviceAccount"), child(shown, "networkConfig")
        # v1 has no word for v2.
        shown |= {"apiVersion": "V2_ALPHA1", "serviceAccount": text(account, "email")}
        shown |= {"network": text(network, "network")}
        return Contract.load("tpu", "v1").visible("Node", shown)


def routes(handlers: OldHandlers, catalog: CatalogHandlers) -> tuple[Route, ...]:
    """Every method of v1 that has an answer."""
    locations = "/v1/projects/{project}/locations"
    zone = f"{locations}/{{zone}}"
    nodes, accelerators = f"{zone}/nodes", f"{zone}/acceleratorTypes"
    tensorflow = f"{zone}/tensorflowVersions"
    table: tuple[tuple[str, str, str, Handler], ...] = (
        ("GET", locations, "list", catalog.list_locations),
        ("GET", zone, "get", catalog.get_location),
        ("GET", accelerators, "acceleratorTypes.list", handlers.list_accelerator_types),
        ("GET", f"{accelerators}/{{id}}", "acceleratorTypes.get", handlers.get_accelerator_type),
        ("GET", tensorflow, "tensorflowVersions.list", handlers.list_tensorflow_versions),
        ("GET", f"{tensorflow}/{{id}}", "tensorflowVersions.get", handlers.get_tensorflow_version),
        ("GET", nodes, "nodes.list", handlers.list_nodes),
        ("GET", f"{nodes}/{{id}}", "nodes.get", handlers.get_node),
        ("POST", nodes, "nodes.create", handlers.refuse),
        ("DELETE", f"{nodes}/{{id}}", "nodes.delete", handlers.refuse),
        ("POST", f"{nodes}/{{id}}:start", "nodes.start", handlers.refuse),
        ("POST", f"{nodes}/{{id}}:stop", "nodes.stop", handlers.refuse),
        ("POST", f"{nodes}/{{id}}:reimage", "nodes.reimage", handlers.refuse),
    )
    return tuple(
        Route(method, pattern, f"tpu.projects.locations.{name}", handler)
        for method, pattern, name, handler in table
    )


def _visible(schema: str, reply: Reply) -> Reply:
    body = reply.body
    if not isinstance(body, dict):
        return reply
    return Reply(body=Contract.load("tpu", "v1").visible(schema, body))
