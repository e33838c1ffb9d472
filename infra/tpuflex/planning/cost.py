"""What a run costs: pure arithmetic over the catalog."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from tpuflex.catalog.rows import Price
from tpuflex.catalog.zones import region_of
from tpuflex.settings.model import StackSettings

_CENT = Decimal("0.01")


@dataclass(frozen=True, slots=True)
class RunCost:
    """What the chips of one run cost. Storage, network traffic, and NAT or DNS zones come on top:
    each of three zones is $0.000273973 an hour, $0.20 a month
    (https://cloud.google.com/dns/pricing, read 2026-09-20).

    Attributes:
        chips: chips in the slice; 0 when the accelerator type is not known.
        per_hour: US dollars per hour for all chips; None when the price is not known.
        maximum: US dollars for the whole run duration; None when the price is not known.
        price: the row that the numbers come from; None on the embedded cloud, which is free,
            in a region without a row, and for an unknown accelerator type.
    """

    chips: int
    per_hour: Decimal | None
    maximum: Decimal | None
    price: Price | None


@dataclass(frozen=True, slots=True)
class OtherRuns:
    """What the other runs of a Google Cloud project cost, each to its end: those that are billed,
    or will be when they are granted.

    Attributes:
        usd: the sum of those whose price and length are known, in US dollars.
        count: how many there are.
        unknown: what could not be read or priced, in words.
    """

    usd: Decimal
    count: int = 0
    unknown: tuple[str, ...] = ()


def usd(amount: Decimal | None) -> float | None:
    """An amount of money in a JSON document."""
    return None if amount is None else float(amount)


def run_cost(settings: StackSettings) -> RunCost:
    """The cost of the slice that ``settings`` describes; where its zones are in several regions, in
    the dearest of them, which is not known while one of their prices is not.

    The accelerator type of a stack that was deployed earlier may have left the catalog; then
    nothing is known of its cost.
    """
    wanted = settings.slice
    costs = (
        slice_cost(settings, wanted.accelerator_type, region, wanted.max_run_duration)
        for region in wanted.regions
    )
    return max(costs, key=lambda cost: (cost.per_hour is None, cost.per_hour or 0))


def cost_in(settings: StackSettings, zone: str) -> RunCost:
    """The cost of the slice that ``settings`` describe where it is: in ``zone``; of one that is
    nowhere, as :func:`run_cost`."""
    wanted = settings.slice
    if not zone:
        return run_cost(settings)
    return slice_cost(settings, wanted.accelerator_type, region_of(zone), wanted.max_run_duration)


def slice_cost(
    settings: StackSettings, accelerator_type: str, region: str, run: timedelta
) -> RunCost:
    """The cost of a slice by the catalog of ``settings``: theirs, or one that runs in its place.

    Args:
        settings: whose cloud and catalog count.
        accelerator_type: Google's name of its chips.
        region: where it is.
        run: its longest run.
    """
    row = settings.catalog.accelerator(accelerator_type)
    if row is None:
        return RunCost(0, None, None, None)
    if settings.cloud == "embedded":
        return RunCost(row.chips, Decimal("0.00"), Decimal("0.00"), None)
    found = settings.catalog.price(row.generation, region)
    if found is None or found.usd_per_chip_hour is None:
        return RunCost(row.chips, None, None, found)
    per_hour = found.usd_per_chip_hour * row.chips
    hours = Decimal(int(run.total_seconds())) / 3600
    return RunCost(row.chips, per_hour.quantize(_CENT), (per_hour * hours).quantize(_CENT), found)
