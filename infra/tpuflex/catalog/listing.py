"""Rows of the catalog by kind and by name, those of the user apart."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.catalog import KINDS
from tpuflex.catalog.rows import Image, Price, Sourced, Zone
from tpuflex.errors import NotFoundError

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Listing:
    """Rows of the catalog.

    Attributes:
        rows: the rows by kind.
        own: those of them that the user added.
    """

    rows: Mapping[str, tuple[Sourced, ...]]
    own: Mapping[str, tuple[Sourced, ...]]

    def to_json(self) -> dict[str, object]:
        """The rows as a catalog.yaml would hold them."""
        return {**_document(self.rows), "own": _document(self.own)}


def listing(catalog: Catalog, kind: str | None = None, name: str | None = None) -> Listing:
    """The rows of ``kind`` called ``name``; all of them without a name or a kind.

    Raises:
        NotFoundError: there is no such row.
    """
    kinds = KINDS if kind is None else (kind,)
    rows = {each: tuple(getattr(catalog, each).values()) for each in kinds}
    if kind is not None and name is not None:
        rows = {kind: _called(kind, rows[kind], name)}
    own = {
        each: tuple(row for row in rows[each] if row in getattr(catalog.own, each))
        for each in kinds
    }
    return Listing(rows, own)


def _called(kind: str, rows: Sequence[Sourced], name: str) -> tuple[Sourced, ...]:
    found = tuple(row for row in rows if _is_called(row, name))
    if found:
        return found
    names = list(dict.fromkeys(row_names(row)[0] for row in rows))
    within = [each for each in names if name.lower() in each.lower()]
    near = within or difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"Did you mean {' or '.join(near[:3])}? " if near else ""
    raise NotFoundError(
        f"The catalog has no {name!r} among its {kind}.",
        hint=f"{hint}`tpuflex catalog {kind}` lists them.",
    )


def _is_called(row: Sourced, name: str) -> bool:
    if isinstance(row, Image):
        digest = name.rpartition("@")[2].removeprefix("sha256:")
        return name == row.repository or bool(digest and row.digest[7:].startswith(digest))
    return name in row_names(row)


def row_names(row: Sourced) -> tuple[str, ...]:
    """What the row is asked for by; the first is the best known."""
    match row:
        case Zone():
            return (row.zone,)
        case Price():
            return (row.region, row.generation)
        case Image():
            return (row.repository, row.digest)
        case _:
            return (str(row.model_dump(include={"name"})["name"]),)


def _document(rows: Mapping[str, Sequence[Sourced]]) -> dict[str, list[object]]:
    return {
        kind: [row.model_dump(mode="json", exclude_none=True) for row in listed]
        for kind, listed in rows.items()
    }
