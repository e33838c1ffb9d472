"""Cloud Storage, JSON API v1."""

from __future__ import annotations

from embedded_cloud.storage.routes import service

__all__ = ["service"]
