"""Which Service Usage v1 methods are implemented, and by whom."""

from __future__ import annotations

from embedded_cloud.routing import Context, Service, routes
from embedded_cloud.serviceusage.handlers import ServiceHandlers

_SERVICES = "/v1/projects/{project}/services"
_SERVICE = f"{_SERVICES}/{{service}}"


def service(context: Context) -> Service:
    """Service Usage: which APIs a project has enabled."""
    handlers = ServiceHandlers(context.store, context.clock, context.project_number)
    table = (
        ("GET", _SERVICES, "services.list", handlers.list),
        ("GET", f"{_SERVICES}:batchGet", "services.batchGet", handlers.batch_get),
        ("POST", f"{_SERVICES}:batchEnable", "services.batchEnable", handlers.batch_enable),
        ("GET", _SERVICE, "services.get", handlers.get),
        ("POST", f"{_SERVICE}:enable", "services.enable", handlers.enable),
        ("POST", f"{_SERVICE}:disable", "services.disable", handlers.disable),
        ("GET", "/v1/operations/{operation}", "operations.get", handlers.operation),
    )
    return Service(
        name="serviceusage",
        version="v1",
        routes=routes("serviceusage", table),
        contract=("serviceusage", "v1"),
    )
