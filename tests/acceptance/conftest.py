"""Fixtures of what `make test` leaves out because it is dear: whole lives of stacks, by area."""

from __future__ import annotations

from tests.engine.embedded import embedded, pulumi_engine, strictly_embedded

__all__ = ["embedded", "pulumi_engine", "strictly_embedded"]
