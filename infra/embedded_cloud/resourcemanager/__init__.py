"""Resource Manager API v1."""

from __future__ import annotations

from embedded_cloud.resourcemanager.routes import service

__all__ = ["service"]
