"""The Compute Engine v1 methods that are emulated."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.compute.errors import not_found
from embedded_cloud.compute.handlers import (
    AddressHandlers,
    ResourceHandlers,
    SubnetworkHandlers,
    Wire,
    list_reply,
)
from embedded_cloud.compute.networks import (
    ADDRESS,
    FIREWALL,
    GLOBAL_ADDRESS,
    NETWORK,
    ROUTER,
    SUBNETWORK,
)
from embedded_cloud.compute.operations import Operations, unique_id
from embedded_cloud.compute.paths import REGIONS, Scope, linked, region_of, zones_of
from embedded_cloud.compute.state import ResourceKind, Resources
from embedded_cloud.json_types import JsonObject, JsonValue, as_object
from embedded_cloud.resourcemanager.state import CREATED, named
from embedded_cloud.routing import Call, Context, Reply, Service


class PlaceHandlers:
    """Handlers of projects, regions, zones and operations."""

    def __init__(
        self,
        operations: Operations,
        wire: Wire,
        project_number: Callable[[str], str],
        project_id: Callable[[str], str],
    ) -> None:
        self._operations = operations
        self._wire = wire
        self._project_number = project_number
        self._project_id = project_id

    def project(self, call: Call) -> Reply:
        """projects.get, by id or by number."""
        project = self._project_id(call.params["project"])
        number = self._project_number(project)
        return Reply(
            body={
                "kind": "compute#project",
                "id": number,
                "name": project,
                "selfLink": f"{self._wire.base}/projects/{project}",
                "creationTimestamp": CREATED,
                "defaultServiceAccount": f"{number}-compute@developer.gserviceaccount.com",
                "defaultNetworkTier": "PREMIUM",
                "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            }
        )

    def region(self, call: Call) -> Reply:
        """regions.get."""
        return Reply(body=self._region(call.params["project"], call.params["region"]))

    def regions(self, call: Call) -> Reply:
        """regions.list."""
        project = call.params["project"]
        return self._list(call, "region", [self._region(project, name) for name in REGIONS])

    def zone(self, call: Call) -> Reply:
        """zones.get."""
        return Reply(body=self._zone(call.params["project"], call.params["zone"]))

    def zones(self, call: Call) -> Reply:
        """zones.list."""
        project = call.params["project"]
        names = [zone for region in REGIONS for zone in zones_of(region)]
        return self._list(call, "zone", [self._zone(project, name) for name in names])

    def operation(self, call: Call) -> Reply:
        """globalOperations.get and regionOperations.get; wait returns the same,
        done or not."""
        operation = self._operations.require(Scope.of(call.params), call.params["operation"])
        return Reply(body=self._wire.operation(operation))

    def operations(self, call: Call) -> Reply:
        """globalOperations.list and regionOperations.list."""
        scope = Scope.of(call.params)
        shown = [self._wire.operation(each) for each in self._operations.all(scope)]
        return list_reply(call, self._wire, "operation", f"{scope.path}/operations", shown)

    def _list(self, call: Call, singular: str, shown: list[JsonObject]) -> Reply:
        path = f"projects/{call.params['project']}/{singular}s"
        return list_reply(call, self._wire, singular, path, shown)

    def _region(self, project: str, name: str) -> JsonObject:
        if name not in REGIONS:
            raise not_found(f"projects/{project}/regions/{name}")
        zones: list[JsonValue] = [f"projects/{project}/zones/{zone}" for zone in zones_of(name)]
        return self._place("region", project, name, {"zones": zones})

    def _zone(self, project: str, name: str) -> JsonObject:
        region = region_of(name)
        if region is None:
            raise not_found(f"projects/{project}/zones/{name}")
        return self._place(
            "zone", project, name, {"region": f"projects/{project}/regions/{region}"}
        )

    def _place(self, singular: str, project: str, name: str, links: JsonObject) -> JsonObject:
        place: JsonObject = {
            "kind": f"compute#{singular}",
            "id": unique_id(name),
            "name": name,
            "description": name,
            "status": "UP",
            "selfLink": f"projects/{project}/{singular}s/{name}",
            **links,
            "creationTimestamp": CREATED,
        }
        return as_object(linked(place, self._wire.base))


def service(context: Context) -> Service:
    """Compute Engine: networking and places."""
    resources = Resources(context.store, context.strictness)
    operations = Operations(context.store, context.clock, context.strictness)
    wire = Wire(resources, context.base_url)

    def of(kind: ResourceKind) -> ResourceHandlers:
        return ResourceHandlers(kind, resources, operations, wire, context.clock)

    networks, routers, firewalls = of(NETWORK), of(ROUTER), of(FIREWALL)
    addresses = AddressHandlers(ADDRESS, resources, operations, wire, context.clock)
    global_addresses = AddressHandlers(GLOBAL_ADDRESS, resources, operations, wire, context.clock)
    subnetworks = SubnetworkHandlers(SUBNETWORK, resources, operations, wire, context.clock)
    places = PlaceHandlers(
        operations,
        wire,
        context.project_number,
        lambda project: named(project, context.store, context.project_number),
    )
    return Service(
        name="compute",
        version="v1",
        handlers={
            "compute.networks.insert": networks.insert,
            "compute.networks.list": networks.list,
            "compute.networks.get": networks.get,
            "compute.networks.patch": networks.patch,
            "compute.networks.delete": networks.delete,
            "compute.subnetworks.insert": subnetworks.insert,
            "compute.subnetworks.list": subnetworks.list,
            "compute.subnetworks.aggregatedList": subnetworks.aggregated,
            "compute.subnetworks.get": subnetworks.get,
            "compute.subnetworks.patch": subnetworks.patch,
            "compute.subnetworks.delete": subnetworks.delete,
            "compute.subnetworks.setPrivateIpGoogleAccess": subnetworks.set_private_google_access,
            "compute.subnetworks.expandIpCidrRange": subnetworks.expand_range,
            "compute.routers.insert": routers.insert,
            "compute.routers.list": routers.list,
            "compute.routers.aggregatedList": routers.aggregated,
            "compute.routers.get": routers.get,
            "compute.routers.patch": routers.patch,
            "compute.routers.update": routers.update,
            "compute.routers.delete": routers.delete,
            "compute.firewalls.insert": firewalls.insert,
            "compute.firewalls.list": firewalls.list,
            "compute.firewalls.get": firewalls.get,
            "compute.firewalls.patch": firewalls.patch,
            "compute.firewalls.update": firewalls.update,
            "compute.firewalls.delete": firewalls.delete,
            "compute.addresses.insert": addresses.insert,
            "compute.addresses.list": addresses.list,
            "compute.addresses.aggregatedList": addresses.aggregated,
            "compute.addresses.get": addresses.get,
            "compute.addresses.delete": addresses.delete,
            "compute.addresses.setLabels": addresses.set_labels,
            "compute.globalAddresses.insert": global_addresses.insert,
            "compute.globalAddresses.list": global_addresses.list,
            "compute.globalAddresses.get": global_addresses.get,
            "compute.globalAddresses.delete": global_addresses.delete,
            "compute.globalAddresses.setLabels": global_addresses.set_labels,
            "compute.projects.get": places.project,
            "compute.regions.list": places.regions,
            "compute.regions.get": places.region,
            "compute.zones.list": places.zones,
            "compute.zones.get": places.zone,
            "compute.globalOperations.list": places.operations,
            "compute.globalOperations.get": places.operation,
            "compute.globalOperations.wait": places.operation,
            "compute.regionOperations.list": places.operations,
            "compute.regionOperations.get": places.operation,
            "compute.regionOperations.wait": places.operation,
        },
    )
