"""What it costs to keep bytes in a bucket for a month. Pure."""

from __future__ import annotations

from decimal import Decimal

from tpuflex.planning.rates import STORAGE

#: Google's month: a year's hours by twelve (https://cloud.google.com/storage/pricing).
HOURS_PER_MONTH = 730
_GIB = 2**30


def storage_per_month(size: int, region: str) -> Decimal | None:
    """US dollars for ``size`` bytes of standard storage in ``region`` during a month; None where
    nobody has read the price."""
    rate = STORAGE.get(region)
    if rate is None:
        return None
    dollars = Decimal(size) / _GIB * rate.usd_per_hour * HOURS_PER_MONTH
    return dollars.quantize(Decimal("0.01"))


def month_text(size: int, region: str) -> str:
    """The same in words, with what is not known."""
    dollars = storage_per_month(size, region)
    if dollars is None:
        return f"the price of storage in {region} was not read"
    return f"${dollars} a month" if dollars or not size else "less than $0.01 a month"
