"""Fixtures of the tests that run the real engine."""

from __future__ import annotations

from embedded_engine import embedded, pulumi_engine

__all__ = ["embedded", "pulumi_engine"]
