"""Rows of the catalog by the names that were typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuflex.errors import NotFoundError

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Accelerator, Model


def known_model(catalog: Catalog, name: str) -> Model:
    """The row of the model called ``name``, or of the one that it is a former name or a copy of.

    Raises:
        NotFoundError: there is none; names the nearest.
    """
    row = catalog.model(name)
    if row is None:
        near = catalog.nearest_models(name)
        hint = f"Did you mean {' or '.join(near)}? " if near else ""
        raise NotFoundError(
            f"The model {name!r} is not in the catalog.",
            hint=f"{hint}Add its row to catalog.yaml: `tpuflex memory --model-dir DIR --row` makes"
            " it from the model's files.",
        )
    return row


def known_accelerator(catalog: Catalog, name: str) -> Accelerator:
    """The row of the accelerator type called ``name``.

    Raises:
        NotFoundError: there is none; names the nearest.
    """
    row = catalog.accelerator(name)
    if row is None:
        nearest = ", ".join(catalog.nearest_accelerators(name))
        raise NotFoundError(f"{name} is not in the catalog.", hint=f"Nearest: {nearest}.")
    return row
