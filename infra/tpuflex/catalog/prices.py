"""Flex-start prices per chip and hour.

From the Cloud Billing Catalog, SKUs "DWS Defined Duration V6e running in ...". A price that
has not been read is not guessed: the row has None, and the plan says "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from tpuflex.catalog import Source

_CATALOG = "Cloud Billing Catalog, service 6F81-5844-456A"
_UNREAD = Source(
    f"{_CATALOG}: a Flex-start SKU is published, its price was not read", date(2026, 8, 7)
)


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one chip per hour on Flex-start.

    Attributes:
        generation: TPU generation, such as ``v6e``.
        region: region in which the price holds.
        usd_per_chip_hour: US dollars, or None where it is not known.
        source: where the price comes from.
    """

    generation: str
    region: str
    usd_per_chip_hour: Decimal | None
    source: Source


PRICES: dict[tuple[str, str], Price] = {
    (row.generation, row.region): row
    for row in (
        Price("v6e", "us-east5", Decimal("1.35"), Source(_CATALOG, date(2026, 8, 7))),
        Price("v6e", "europe-west4", Decimal("1.35"), Source("a field report", date(2026, 8, 1))),
        *(
            Price("v6e", region, None, _UNREAD)
            for region in (
                "us-central1",
                "us-south1",
                "asia-northeast1",
                "asia-southeast1",
                "southamerica-east1",
                "southamerica-west1",
            )
        ),
    )
}


def price(generation: str, region: str) -> Price | None:
    """The price row of ``generation`` in ``region``, or None where there is none."""
    return PRICES.get((generation, region))
