"""The TPU methods that are emulated: one table for v2alpha1 and v2, and reads of v1."""

from __future__ import annotations

from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.routing import Context, Handler, Service
from embedded_cloud.tpu.catalog_handlers import CatalogHandlers
from embedded_cloud.tpu.handlers import TpuHandlers
from embedded_cloud.tpu.state import TpuState
from embedded_cloud.tpu.v1_handlers import V1Handlers
from embedded_cloud.tpu.wire import ApiVersion


def services(context: Context, state: TpuState) -> tuple[Service, ...]:
    """The service in all its versions, over one state."""
    catalog = CatalogHandlers(context.project_number)
    guest = GuestAttributes(context.store)

    def version(name: str) -> ApiVersion:
        return ApiVersion(name, context.project_number, state.addresses)

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
        "tpu.projects.locations.operations.delete": tpu.delete_operation,
        "tpu.projects.locations.operations.cancel": tpu.cancel_operation,
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
