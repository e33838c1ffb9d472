"""Accelerator types that come with tpuflex."""

from __future__ import annotations

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Accelerator


def accelerator(name: str) -> Accelerator | None:
    """The accelerator type called ``name``, or None."""
    return builtin().accelerator(name)


def nearest_accelerators(name: str, count: int = 3) -> tuple[str, ...]:
    """The ``count`` names most like ``name``, best first; filled up with the smallest types."""
    return builtin().nearest_accelerators(name, count)
