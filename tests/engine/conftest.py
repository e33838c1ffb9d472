"""Fixtures of the tests that run the real engine."""

from __future__ import annotations

from tests.engine.embedded import embedded, pulumi_engine, strictly_embedded
from tests.engine.region_copies import rig

__all__ = ["embedded", "pulumi_engine", "rig", "strictly_embedded"]
