"""The Compute Engine v1 methods that are emulated."""

from __future__ import annotations

from collections.abc import Callable

from embedded_cloud.core.projects import CREATED, default_service_account, named, project_number
from embedded_cloud.core.routing import Call, Context, Reply, Service
from embedded_cloud.services.compute.handlers import (
    AddressHandlers,
    ResourceHandlers,
    SubnetworkHandlers,
    Wire,
)
from embedded_cloud.services.compute.networks import (
    ADDRESS,
    FIREWALL,
    NETWORK,
    ROUTER,
    SUBNETWORK,
)
from embedded_cloud.services.compute.operations import Operations
from embedded_cloud.services.compute.paths import Scope
from embedded_cloud.services.compute.state import ResourceKind, Resources


class PlaceHandlers:
    """Handlers of projects and operations."""

    def __init__(
        self,
        operations: Operations,
        wire: Wire,
        project_id: Callable[[str], str],
    ) -> None:
        self._operations = operations
        self._wire = wire
        self._project_id = project_id

    def project(self, call: Call) -> Reply:
        """projects.get, by id or by number."""
        project = self._project_id(call.params["project"])
        number = project_number(project)
        return Reply(
            body={
                "kind": "compute#project",
                "id": number,
                "name": project,
                "selfLink": f"{self._wire.base}/projects/{project}",
                "creationTimestamp": CREATED,
                "defaultServiceAccount": default_service_account(number),
                "defaultNetworkTier": "PREMIUM",
                "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
            }
        )

    def operation(self, call: Call) -> Reply:
        """globalOperations.get and regionOperations.get; wait returns the same,
        done or not."""
        operation = self._operations.require(Scope.of(call.params), call.params["operation"])
        return Reply(body=self._wire.operation(operation))


def service(context: Context) -> Service:
    """Compute Engine: networking."""
    resources = Resources(context.store, context.strictness)
    operations = Operations(context.store, context.clock, context.strictness)
    wire = Wire(resources, context.base_url)

    def of(kind: ResourceKind) -> ResourceHandlers:
        return ResourceHandlers(kind, resources, operations, wire, context.clock)

    networks, routers, firewalls = of(NETWORK), of(ROUTER), of(FIREWALL)
    addresses = AddressHandlers(ADDRESS, resources, operations, wire, context.clock)
    subnetworks = SubnetworkHandlers(SUBNETWORK, resources, operations, wire, context.clock)
    places = PlaceHandlers(
        operations,
        wire,
        lambda project: named(project, context.store),
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
            "compute.projects.get": places.project,
            "compute.globalOperations.get": places.operation,
            "compute.globalOperations.wait": places.operation,
            "compute.regionOperations.get": places.operation,
            "compute.regionOperations.wait": places.operation,
        },
    )
