"""The startup script's hosts, as tests/startup has them."""

from __future__ import annotations

from tests.startup.conftest import booted, fresh, host, saved

__all__ = ["booted", "fresh", "host", "saved"]
