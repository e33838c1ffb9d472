"""Which Compute v1 methods are implemented, and by whom."""

from __future__ import annotations

from collections.abc import Iterator

from embedded_cloud.compute.addresses import ADDRESS, GLOBAL_ADDRESS
from embedded_cloud.compute.firewalls import FIREWALL
from embedded_cloud.compute.handlers import KindHandlers
from embedded_cloud.compute.kinds import Kind, Resources
from embedded_cloud.compute.networks import NETWORK, SUBNETWORK
from embedded_cloud.compute.operations import Operations
from embedded_cloud.compute.place_handlers import PlaceHandlers
from embedded_cloud.compute.routers import ROUTER
from embedded_cloud.compute.subnetwork_handlers import SubnetworkHandlers
from embedded_cloud.compute.wire import Wire
from embedded_cloud.routing import Context, Route, Service

_PROJECT = "/compute/v1/projects/{project}"
_REGION = f"{_PROJECT}/regions/{{region}}"


def service(context: Context) -> Service:
    """Compute Engine: networking and places. It has no instances."""
    resources = Resources(context.store)
    operations = Operations(context.store, context.clock)
    wire = Wire(resources, context.base_url)
    routes: list[Route] = []
    for kind in (NETWORK, SUBNETWORK, ROUTER, FIREWALL, ADDRESS, GLOBAL_ADDRESS):
        handlers = KindHandlers(kind, resources, operations, wire, context.clock)
        routes.extend(_kind_routes(kind, handlers))
        if kind is SUBNETWORK:
            routes.extend(_subnetwork_routes(SubnetworkHandlers(handlers)))
    routes.extend(_place_routes(PlaceHandlers(operations, wire, context.project_number)))
    return Service(name="compute", version="v1", routes=tuple(routes), contract=("compute", "v1"))


def _kind_routes(kind: Kind, handlers: KindHandlers) -> Iterator[Route]:
    scope = _REGION if kind.regional else f"{_PROJECT}/global"
    every, one = f"{scope}/{kind.collection}", f"{scope}/{kind.collection}/{{name}}"
    table = {
        "insert": ("POST", every, handlers.insert),
        "list": ("GET", every, handlers.page),
        "get": ("GET", one, handlers.get),
        "patch": ("PATCH", one, handlers.patch),
        "update": ("PUT", one, handlers.update),
        "delete": ("DELETE", one, handlers.delete),
        "aggregatedList": ("GET", f"{_PROJECT}/aggregated/{kind.collection}", handlers.aggregated),
    }
    resource = "globalAddresses" if kind is GLOBAL_ADDRESS else kind.collection
    for name in kind.methods:
        method, pattern, handler = table[name]
        yield Route(method, pattern, f"compute.{resource}.{name}", handler)


def _subnetwork_routes(handlers: SubnetworkHandlers) -> Iterator[Route]:
    table = {
        "setPrivateIpGoogleAccess": handlers.set_private_google_access,
        "expandIpCidrRange": handlers.expand_range,
    }
    for name, handler in table.items():
        pattern = f"{_REGION}/subnetworks/{{name}}/{name}"
        yield Route("POST", pattern, f"compute.subnetworks.{name}", handler)


def _place_routes(handlers: PlaceHandlers) -> Iterator[Route]:
    yield Route("GET", _PROJECT, "compute.projects.get", handlers.project)
    yield Route("GET", f"{_PROJECT}/regions", "compute.regions.list", handlers.regions)
    yield Route("GET", _REGION, "compute.regions.get", handlers.region)
    yield Route("GET", f"{_PROJECT}/zones", "compute.zones.list", handlers.zones)
    yield Route("GET", f"{_PROJECT}/zones/{{zone}}", "compute.zones.get", handlers.zone)
    scopes = ((f"{_PROJECT}/global", "globalOperations"), (_REGION, "regionOperations"))
    for scope, resource in scopes:
        every = f"{scope}/operations"
        one = f"{every}/{{operation}}"
        yield Route("GET", every, f"compute.{resource}.list", handlers.operations)
        yield Route("GET", one, f"compute.{resource}.get", handlers.operation)
        yield Route("POST", f"{one}/wait", f"compute.{resource}.wait", handlers.operation)
