"""The Cloud Monitoring v3 methods that are emulated."""

from __future__ import annotations

from embedded_cloud.core.routing import Context, Service


def service(_context: Context) -> Service:
    """Cloud Monitoring."""
    return Service(name="monitoring", version="v3", handlers={})
