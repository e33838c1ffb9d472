"""Identity and Access Management API v1; also the policies that every service keeps."""

from __future__ import annotations

from embedded_cloud.iam.routes import service

__all__ = ["service"]
