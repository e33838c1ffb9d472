"""The TPU methods that are emulated: one table for v2alpha1 and v2, and reads of v1.

v1 manages TPU nodes of the old architecture, which no accelerator here has. Methods that change
one are answered with 404, not with 501: gcloud retries a 501 for half a minute.
"""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.core.contract import Contract
from embedded_cloud.core.errors import not_found
from embedded_cloud.core.json_types import JsonObject, child, text
from embedded_cloud.core.projects import project_number
from embedded_cloud.core.routing import Call, Context, Handler, Reply, Service
from embedded_cloud.machines.hosts.guest_attributes import GuestAttributes
from embedded_cloud.services.tpu import validation
from embedded_cloud.services.tpu.handlers import TpuHandlers
from embedded_cloud.services.tpu.records import Node, Place
from embedded_cloud.services.tpu.state import TpuState
from embedded_cloud.services.tpu.wire import PAGING, ApiVersion, place_of
from embedded_cloud.services.tpu.zones import RUNTIME_VERSIONS, ZONES, Accelerator, accelerators_in


class CatalogHandlers:
    """Handlers that only read tables, the same for all versions of the API."""

    def get_accelerator_type(self, call: Call) -> Reply:
        """``acceleratorTypes.get``."""
        place = _known_place(call)
        for accelerator in accelerators_in(place.zone):
            if accelerator.name == call.id:
                return Reply(body=_accelerator(place)(accelerator))
        name = f"{place.parent}/acceleratorTypes/{call.id}"
        raise not_found(f"Resource '{name}' was not found")

    def list_accelerator_types(self, call: Call) -> Reply:
        """``acceleratorTypes.list``."""
        place = _known_place(call)
        accelerators = accelerators_in(place.zone)
        return PAGING.reply(
            call, "acceleratorTypes", accelerators, lambda entry: entry.name, _accelerator(place)
        )

    def get_runtime_version(self, call: Call) -> Reply:
        """``runtimeVersions.get``."""
        place = _known_place(call)
        if call.id in RUNTIME_VERSIONS:
            return Reply(body=_runtime(place)(call.id))
        name = f"{place.parent}/runtimeVersions/{call.id}"
        raise not_found(f"Resource '{name}' was not found")

    def list_runtime_versions(self, call: Call) -> Reply:
        """``runtimeVersions.list``."""
        place = _known_place(call)
        return PAGING.reply(call, "runtimeVersions", RUNTIME_VERSIONS, str, _runtime(place))

    def get_location(self, call: Call) -> Reply:
        """``locations.get``."""
        place = place_of(call)
        if place.zone not in ZONES:
            raise not_found(f"Location '{place.parent}' was not found")
        return Reply(body=_location(place.project)(place.zone))

    def list_locations(self, call: Call) -> Reply:
        """``locations.list``."""
        show = _location(call.params["project"])
        return PAGING.reply(call, "locations", sorted(ZONES), str, show)

    def generate_service_identity(self, call: Call) -> Reply:
        """``generateServiceIdentity``."""
        place = _known_place(call)
        number = project_number(place.project)
        email = f"service-{number}@cloud-tpu.iam.gserviceaccount.com"
        return Reply(body={"identity": {"email": email}})


def _known_place(call: Call) -> Place:
    place = place_of(call)
    validation.check_zone(place)
    return place


def _accelerator(place: Place) -> Callable[[Accelerator], JsonObject]:
    def show(accelerator: Accelerator) -> JsonObject:
        config: JsonObject = {"type": accelerator.config_type, "topology": accelerator.topology}
        return {
            "name": f"{place.parent}/acceleratorTypes/{accelerator.name}",
            "type": accelerator.name,
            "acceleratorConfigs": [config],
        }

    return show


def _runtime(place: Place) -> Callable[[str], JsonObject]:
    return lambda version: {
        "name": f"{place.parent}/runtimeVersions/{version}",
        "version": version,
    }


def _location(project: str) -> Callable[[str], JsonObject]:
    return lambda zone: {
        "name": f"projects/{project}/locations/{zone}",
        "locationId": zone,
        "labels": {"cloud.googleapis.com/region": zone.rpartition("-")[0]},
    }


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


def services(context: Context, state: TpuState) -> tuple[Service, ...]:
    """The service in all its versions, over one state."""
    catalog = CatalogHandlers()
    guest = GuestAttributes(context.store)

    def version(name: str) -> ApiVersion:
        return ApiVersion(name, state.addresses)

    def handlers(name: str) -> dict[str, Handler]:
        tpu = TpuHandlers(state, version(name), guest, context.clock, context.strictness)
        return _handlers(tpu, catalog)

    v1 = V1Handlers(state, catalog, version("v2alpha1"))
    return (
        Service("tpu", "v2alpha1", handlers("v2alpha1"), tick=state.sync),
        Service("tpu", "v2", handlers("v2")),
        Service("tpu", "v1", _v1_handlers(v1, catalog)),
    )


def _handlers(tpu: TpuHandlers, catalog: CatalogHandlers) -> dict[str, Handler]:
    return {
        "tpu.projects.locations.queuedResources.create": tpu.create_queued_resource,
        "tpu.projects.locations.queuedResources.list": tpu.list_queued_resources,
        "tpu.projects.locations.queuedResources.get": tpu.get_queued_resource,
        "tpu.projects.locations.queuedResources.delete": tpu.delete_queued_resource,
        "tpu.projects.locations.queuedResources.reset": tpu.reset_queued_resource,
        "tpu.projects.locations.nodes.create": tpu.create_node,
        "tpu.projects.locations.nodes.list": tpu.list_nodes,
        "tpu.projects.locations.nodes.get": tpu.get_node,
        "tpu.projects.locations.nodes.delete": tpu.delete_node,
        "tpu.projects.locations.nodes.patch": tpu.patch_node,
        "tpu.projects.locations.nodes.stop": tpu.stop_node,
        "tpu.projects.locations.nodes.start": tpu.start_node,
        "tpu.projects.locations.nodes.getGuestAttributes": tpu.get_guest_attributes,
        "tpu.projects.locations.operations.list": tpu.list_operations,
        "tpu.projects.locations.operations.get": tpu.get_operation,
        "tpu.projects.locations.acceleratorTypes.list": catalog.list_accelerator_types,
        "tpu.projects.locations.acceleratorTypes.get": catalog.get_accelerator_type,
        "tpu.projects.locations.runtimeVersions.list": catalog.list_runtime_versions,
        "tpu.projects.locations.runtimeVersions.get": catalog.get_runtime_version,
        "tpu.projects.locations.generateServiceIdentity": catalog.generate_service_identity,
        "tpu.projects.locations.get": catalog.get_location,
        "tpu.projects.locations.list": catalog.list_locations,
    }


def _v1_handlers(v1: V1Handlers, catalog: CatalogHandlers) -> dict[str, Handler]:
    return {
        "tpu.projects.locations.list": catalog.list_locations,
        "tpu.projects.locations.get": catalog.get_location,
        "tpu.projects.locations.acceleratorTypes.list": v1.list_accelerator_types,
        "tpu.projects.locations.acceleratorTypes.get": v1.get_accelerator_type,
        "tpu.projects.locations.tensorflowVersions.list": v1.list_tensorflow_versions,
        "tpu.projects.locations.tensorflowVersions.get": v1.get_tensorflow_version,
        "tpu.projects.locations.nodes.list": v1.list_nodes,
        "tpu.projects.locations.nodes.get": v1.get_node,
        "tpu.projects.locations.nodes.create": v1.refuse,
        "tpu.projects.locations.nodes.delete": v1.refuse,
        "tpu.projects.locations.nodes.start": v1.refuse,
        "tpu.projects.locations.nodes.stop": v1.refuse,
        "tpu.projects.locations.nodes.reimage": v1.refuse,
    }
