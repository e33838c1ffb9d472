"""Resource Manager API v1."""

from __future__ import annotations

from tpuflex.emulator.resourcemanager.routes import service

__all__ = ["service"]
