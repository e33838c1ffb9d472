"""Cloud Storage, JSON API v1."""

from __future__ import annotations

from tpuflex.emulator.storage.routes import service

__all__ = ["service"]
