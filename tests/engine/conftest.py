"""Fixtures of the tests that run the real engine."""

from __future__ import annotations

from tests.engine.embedded import embedded, pulumi_engine, strictly_embedded

__all__ = ["embedded", "pulumi_engine", "strictly_embedded"]
