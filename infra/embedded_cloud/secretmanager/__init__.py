"""Secret Manager API v1."""

from __future__ import annotations

from embedded_cloud.secretmanager.routes import service

__all__ = ["service"]
