"""The Cloud Monitoring v1 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.monitoring.dashboards.handlers import DashboardHandlers
from embedded_cloud.monitoring.dashboards.state import Dashboards
from embedded_cloud.routing import Context, Service


def service(context: Context) -> Service:
    """Cloud Monitoring: dashboards, which nothing draws."""
    dashboards = DashboardHandlers(Dashboards(context.store))
    return Service(
        name="monitoring",
        version="v1",
        handlers={
            f"monitoring.projects.dashboards.{name}": getattr(dashboards, name)
            for name in ("create", "get", "list", "patch", "delete")
        },
    )
