"""Secret Manager API v1."""

from __future__ import annotations

from tpuflex.emulator.secretmanager.routes import service

__all__ = ["service"]
