"""The Service Usage v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.routing import Context, Service
from embedded_cloud.serviceusage.handlers import ServiceHandlers
from embedded_cloud.serviceusage.state import ProjectServices


def service(context: Context) -> Service:
    """Service Usage: which APIs a project has enabled."""
    enabled = ProjectServices(context.store, context.clock, context.strictness)
    services = ServiceHandlers(context.store, context.clock, context.project_number, enabled)
    return Service(
        name="serviceusage",
        version="v1",
        handlers={
            "serviceusage.services.list": services.list,
            "serviceusage.services.batchGet": services.batch_get,
            "serviceusage.services.batchEnable": services.batch_enable,
            "serviceusage.services.get": services.get,
            "serviceusage.services.enable": services.enable,
            "serviceusage.services.disable": services.disable,
            "serviceusage.operations.get": services.operation,
        },
    )
