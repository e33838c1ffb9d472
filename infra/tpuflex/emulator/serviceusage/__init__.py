"""Service Usage API v1."""

from __future__ import annotations

from tpuflex.emulator.serviceusage.routes import service

__all__ = ["service"]
