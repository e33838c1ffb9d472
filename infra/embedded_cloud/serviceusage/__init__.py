"""Service Usage API v1."""

from __future__ import annotations

from embedded_cloud.serviceusage.routes import service

__all__ = ["service"]
