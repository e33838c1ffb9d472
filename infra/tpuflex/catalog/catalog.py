"""The catalog: the rows that come with tpuflex, and those that a user puts in their place."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from tpuflex.catalog.packaged import packaged_rows
from tpuflex.catalog.rows import (
    Accelerator,
    CatalogRows,
    Image,
    Model,
    OwnSource,
    Price,
    PriceKind,
    Source,
    Sourced,
    Zone,
)

_Row = TypeVar("_Row", bound=Sourced)


@dataclass(frozen=True, slots=True)
class Catalog:
    """What is known of accelerators, zones, prices, models and images.

    Attributes:
        own: the rows that a user added; with them alone the catalog can be made again.
        accelerators: accelerator types by name.
        zones: zones by name and TPU generation.
        prices: prices by TPU generation, region and kind.
        models: models by Hugging Face id.
        images: images by digest.
    """

    own: CatalogRows
    accelerators: Mapping[str, Accelerator]
    zones: Mapping[tuple[str, str], Zone]
    prices: Mapping[tuple[str, str, PriceKind], Price]
    models: Mapping[str, Model]
    images: Mapping[str, Image]

    @classmethod
    def of(cls, rows: CatalogRows, own: CatalogRows | None = None) -> Catalog:
        """The catalog of ``rows``, of which ``own`` are the user's; a later row replaces an
        earlier one of the same key."""
        return cls(
            own=own or CatalogRows(),
            accelerators=MappingProxyType({row.name: row for row in rows.accelerators}),
            zones=MappingProxyType({(row.zone, row.generation): row for row in rows.zones}),
            prices=MappingProxyType(
                {(row.generation, row.region, row.kind): row for row in rows.prices}
            ),
            models=MappingProxyType({row.name: row for row in rows.models}),
            images=MappingProxyType({row.digest: row for row in rows.images}),
        )

    def extended(self, rows: CatalogRows) -> Catalog:
        """This catalog with a user's ``rows``, which replace those of the same key; whatever is
        computed from one of them says so by its source."""
        marked = _marked(rows)
        return Catalog.of(_followed(self.rows, marked), own=merged(self.own, marked))

    @property
    def rows(self) -> CatalogRows:
        """All rows, as lists."""
        return CatalogRows(
            accelerators=tuple(self.accelerators.values()),
            zones=tuple(self.zones.values()),
            prices=tuple(self.prices.values()),
            models=tuple(self.models.values()),
            images=tuple(self.images.values()),
        )

    def accelerator(self, name: str) -> Accelerator | None:
        """The accelerator type called ``name``, or None."""
        return self.accelerators.get(name)

    def nearest_accelerators(self, name: str) -> tuple[str, ...]:
        """The three names most like ``name``, best first; filled up with the first types."""
        close = difflib.get_close_matches(name.lower(), self.accelerators, n=3, cutoff=0.5)
        return tuple(dict.fromkeys((*close, *self.accelerators)))[:3]

    def zone(self, zone: str, generation: str) -> Zone | None:
        """What is known of ``generation`` on Flex-start in ``zone``, or None."""
        return self.zones.get((zone, generation))

    def accepting_zones(self, generation: str) -> tuple[str, ...]:
        """Zones documented or observed to accept Flex-start requests for ``generation``,
        documented ones first."""
        accepting = [
            row
            for row in self.zones.values()
            if row.generation == generation and row.flex_start in ("documented", "observed")
        ]
        return tuple(row.zone for row in sorted(accepting, key=lambda row: row.flex_start))

    def nearest_zones(self, zone: str) -> tuple[str, ...]:
        """Zones that ``zone`` may be a misspelling of, best first; may be empty."""
        known = dict.fromkeys(name for name, _ in self.zones)
        lowered = zone.lower().replace("_", "-")
        return tuple(difflib.get_close_matches(lowered, known, n=3, cutoff=0.7))

    def price(self, generation: str, region: str) -> Price | None:
        """The Flex-start price of ``generation`` in ``region``, or None where no row has it."""
        return self.prices.get((generation, region, "flex_start"))

    def model(self, name: str) -> Model | None:
        """The model called ``name``, or None; most models are not in the catalog.

        A name is found in any case, as the Hub finds it, by a former name, and as that of a copy:
        a repository of the same name by another owner. Compare :attr:`Model.name` to tell.
        """
        exact = self.models.get(name)
        if exact is not None:
            return exact
        owner, _, bare = name.casefold().rpartition("/")
        known = [
            (row, *known.casefold().rpartition("/")[::2])
            for row in self.models.values()
            for known in (row.name, *row.former_names)
        ]
        same = [row for row, whose, what in known if (whose, what) == (owner, bare)]
        copied = [row for row, _, what in known if what == bare]
        return next(iter((*same, *copied)), None)

    def nearest_models(self, name: str, count: int = 3) -> tuple[str, ...]:
        """Models that ``name`` may be a misspelling of, best first; may be empty. Letters that two
        families share make none of the other: gpt-oss-20b is no Gemma."""
        names = {known.casefold(): known for known in self.models if _same_family(known, name)}
        close = difflib.get_close_matches(name.casefold(), names, n=count, cutoff=0.6)
        return tuple(names[one] for one in close)

    def image(self, digest: str) -> Image | None:
        """The image with ``digest`` (``sha256:…``), or None."""
        return self.images.get(digest)


def _same_family(known: str, name: str) -> bool:
    """Whether a word of ``name`` may be the family of the model ``known``, its first word."""
    family, *_ = _words(known)
    return bool(difflib.get_close_matches(family, _words(name), n=1, cutoff=0.7))


def _words(name: str) -> list[str]:
    return re.findall(r"[a-z]+", name.casefold().rpartition("/")[2]) or [""]


def merged(earlier: CatalogRows, later: CatalogRows) -> CatalogRows:
    """The rows of both, those of ``later`` instead of ``earlier`` ones of the same key."""
    return Catalog.of(_followed(earlier, later)).rows


def _followed(earlier: CatalogRows, later: CatalogRows) -> CatalogRows:
    rows: dict[str, Any] = {
        kind: (*getattr(earlier, kind), *getattr(later, kind)) for kind in CatalogRows.model_fields
    }
    return CatalogRows(**rows)


def _marked(rows: CatalogRows) -> CatalogRows:
    """``rows`` with sources that say whose they are."""
    return CatalogRows(
        **{kind: tuple(map(_marked_row, getattr(rows, kind))) for kind in CatalogRows.model_fields}
    )


def _marked_row(row: _Row) -> _Row:
    changed: dict[str, object] = {"source": _own(row.source)}
    if isinstance(row, Model):
        changed["seen"] = tuple(
            report.model_copy(update={"source": _own(report.source)}) for report in row.seen
        )
    return row.model_copy(update=changed)


def _own(source: Source) -> OwnSource:
    return OwnSource(where=source.where, date=source.date)


#: The files that come with tpuflex, in the format of a user's catalog.yaml.
FILES = ("accelerators", "zones", "prices", "models", "images")


@cache
def builtin() -> Catalog:
    """The catalog that comes with tpuflex, read once."""
    rows: dict[str, object] = {}
    for name in FILES:
        rows |= packaged_rows(f"{name}.yaml")
    # As JSON, because a user's rows are read that way: strictly, yet lists become tuples.
    return Catalog.of(CatalogRows.model_validate_json(json.dumps(rows), strict=True))
