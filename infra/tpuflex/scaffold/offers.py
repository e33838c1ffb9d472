"""What the questions of a new stack offer: rows of the catalog, each with what decides. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.catalog.zones import region_of
from tpuflex.duration import parse_duration
from tpuflex.planning.recommend import Option, Requirements, recommend
from tpuflex.planning.request import Load
from tpuflex.planning.stack_cost import hourly
from tpuflex.scaffold.options import Offer

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog
    from tpuflex.catalog.rows import Model

#: Runs that are offered: hours of work, a day, and the longest that Flex-start grants.
_RUNS = ("4h", "8h", "24h", "7d")


def models_offered(catalog: Catalog, context: int) -> Iterator[Offer]:
    """The models that fit on one host, with the chips that cost least."""
    for row in catalog.models.values():
        if (best := next(iter(_fitting(row, catalog, context)), None)) is not None:
            chips = f"{best.request.accelerator.name}{_price(best.per_hour.value)}"
            yield Offer(row.name, f"{row.text_params / 10**9:.1f}B parameters; from {chips}")


def accelerators_offered(model: str, catalog: Catalog, context: int) -> Iterator[Offer]:
    """The accelerator types that hold ``model``, cheapest first; of a model that nobody knows, all
    of one host."""
    row = catalog.model(model)
    if row is not None:
        for option in _fitting(row, catalog, context):
            held = option.limits.cached_tokens.value if option.limits else None
            cache = f"{held:,} tokens of cache" if held is not None else "fits"
            name = option.request.accelerator.name
            yield Offer(name, f"{cache}{_price(option.per_hour.value)}")
        return
    for each in catalog.accelerators.values():
        if each.flex_start_api and each.hosts == 1 and catalog.accepting_zones(each.generation):
            chips = "1 chip" if each.chips == 1 else f"{each.chips} chips"
            yield Offer(each.name, f"{chips}; whether the model fits is not known")


def zones_offered(accelerator: str, catalog: Catalog) -> Iterator[Offer]:
    """The zones that are known to grant ``accelerator``, with its price there."""
    row = catalog.accelerator(accelerator)
    for zone in catalog.accepting_zones(row.generation) if row is not None else ():
        price = _in_region(accelerator, region_of(zone), catalog)
        yield Offer(zone, f"{accelerator}{_price(price)}")


def runs_offered(accelerator: str, zone: str, catalog: Catalog) -> Iterator[Offer]:
    """Longest runs, with what the chips of a whole one cost."""
    price = _in_region(accelerator, region_of(zone), catalog)
    for run in _RUNS:
        hours = Decimal(parse_duration(run).total_seconds()) / 3600
        yield Offer(run, "price not known" if price is None else f"at most ${price * hours:,.2f}")


def _fitting(row: Model, catalog: Catalog, context: int) -> list[Option]:
    """Options for ``row`` that can be had: they fit, and a zone is known to grant them."""
    load = Load(context=min(context, row.max_context or context), concurrency=1)
    options = recommend([row], Requirements(load=load), catalog).options
    return [
        option
        for option in options
        if option.fit == "fits" and option.zones and option.request.kv_cache_dtype == "bfloat16"
    ]


def _in_region(accelerator: str, region: str, catalog: Catalog) -> Decimal | None:
    row = catalog.accelerator(accelerator)
    if row is None:
        return None
    value = hourly(row, catalog.price(row.generation, region), region).value
    return None if value is None else Decimal(str(value))


def _price(usd: Decimal | int | float | None) -> str:
    return ", price not known" if usd is None else f", ${usd:.2f}/h"
