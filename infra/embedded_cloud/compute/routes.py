"""The Compute Engine v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.compute.addresses import ADDRESS, GLOBAL_ADDRESS
from embedded_cloud.compute.firewalls import FIREWALL
from embedded_cloud.compute.handlers import AddressHandlers, ResourceHandlers, SubnetworkHandlers
from embedded_cloud.compute.networks import NETWORK, SUBNETWORK
from embedded_cloud.compute.operations import Operations
from embedded_cloud.compute.place_handlers import PlaceHandlers
from embedded_cloud.compute.routers import ROUTER
from embedded_cloud.compute.state import ResourceKind, Resources
from embedded_cloud.compute.wire import Wire
from embedded_cloud.resourcemanager.state import named
from embedded_cloud.routing import Context, Service


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
