"""A stack of one queued resource on an embedded cloud, as the provider's own tests have it."""

from __future__ import annotations

from tests.provider.conftest import blank, hosts, rig, served

__all__ = ["blank", "hosts", "rig", "served"]
