"""Models that come with tpuflex."""

from __future__ import annotations

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import Model


def model(name: str) -> Model | None:
    """The model called ``name``, or None; most models are not in the catalog."""
    return builtin().model(name)
