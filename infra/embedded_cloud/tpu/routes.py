"""The TPU methods that are emulated: one table for v2alpha1 and v2."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.errors import not_found
from embedded_cloud.hosts.guest_attributes import GuestAttributes
from embedded_cloud.json_types import JsonObject
from embedded_cloud.routing import Call, Context, Handler, Reply, Service
from embedded_cloud.tpu import validation
from embedded_cloud.tpu.handlers import TpuHandlers
from embedded_cloud.tpu.records import Place
from embedded_cloud.tpu.state import TpuState
from embedded_cloud.tpu.wire import PAGING, ApiVersion, place_of
from embedded_cloud.tpu.zones import RUNTIME_VERSIONS, ZONES, Accelerator, accelerators_in


class CatalogHandlers:
    """Handlers that only read tables, the same for all versions of the API.

    Args:
        project_number: project id -> number.
    """

    def __init__(self, project_number: Callable[[str], str]) -> None:
        self._project_number = project_number

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
        number = self._project_number(place.project)
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


def services(context: Context, state: TpuState) -> tuple[Service, ...]:
    """The service in all its versions, over one state."""
    catalog = CatalogHandlers(context.project_number)
    guest = GuestAttributes(context.store)

    def version(name: str) -> ApiVersion:
        return ApiVersion(name, context.project_number, state.addresses)

    def handlers(name: str) -> dict[str, Handler]:
        tpu = TpuHandlers(state, version(name), guest, context.clock, context.strictness)
        return _handlers(tpu, catalog)

    return (
        Service("tpu", "v2alpha1", handlers("v2alpha1"), tick=state.sync),
        Service("tpu", "v2", handlers("v2")),
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
