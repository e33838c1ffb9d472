"""Flex-start prices that come with tpuflex."""

from __future__ import annotations

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Price


def price(generation: str, region: str) -> Price | None:
    """The Flex-start price of ``generation`` in ``region``, or None where there is no row."""
    return builtin().price(generation, region)
