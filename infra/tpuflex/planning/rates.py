"""Prices of what a stack uses beside chips: storage and copies of the weights, DNS zones, NAT, and
Cloud Monitoring.

Rows with a source and a date each. A region without a row has no price here; none is guessed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal

from tpuflex.catalog.rows import Source
from tpuflex.planning.figure import GIB


@dataclass(frozen=True, slots=True)
class Rate:
    """A price per hour.

    Attributes:
        usd_per_hour: US dollars for one unit during one hour.
        source: where the price was read.
    """

    usd_per_hour: Decimal
    source: Source


def _storage(usd_per_hour: str, where: str, read: date) -> Rate:
    return Rate(Decimal(usd_per_hour), Source(where=where, date=read))


#: A GiB of standard storage in one region (https://cloud.google.com/storage/pricing).
STORAGE: dict[str, Rate] = {
    "us-central1": _storage(
        "0.000027397", "https://cloud.google.com/storage/pricing, region Iowa", date(2026, 9, 20)
    ),
    "europe-west4": _storage(
        "0.000027397",
        "https://cloud.google.com/storage/pricing, region Netherlands (a public cost note)",
        date(2026, 8, 31),
    ),
    "us-east5": _storage(
        "0.000027397",
        "https://cloud.google.com/storage/pricing, archived: Columbus, $0.020 per GB and month",
        date(2022, 12, 30),
    ),
}

#: A private DNS zone; `egress: google` has some, which lead Google's names to its private range.
DNS_ZONE = Rate(
    Decimal("0.000273973"),
    Source(where="https://cloud.google.com/dns/pricing", date=date(2026, 9, 20)),
)

_NAT = Source(
    where="https://cloud.google.com/nat/pricing and https://cloud.google.com/vpc/network-pricing"
    " (a public cost note)",
    date=date(2026, 10, 16),
)
#: Cloud NAT for one virtual machine; what passes through it is $0.045 per GiB on top.
NAT_PER_HOST = Rate(Decimal("0.0014"), _NAT)
#: An external address of the gateway; it needs at least one.
NAT_ADDRESS = Rate(Decimal("0.005"), _NAT)

#: Bytes that Cloud Monitoring charges for a point: of a number, and of a distribution.
POINT_BYTES, DISTRIBUTION_BYTES = 8, 80


@dataclass(frozen=True, slots=True)
class MetricsRate:
    """The price of what is written to Cloud Monitoring.

    Attributes:
        usd_per_mib: US dollars for one MiB beyond those that are free.
        free_mib: MiB a month that are free, for all projects of a billing account together.
        source: where the price was read.
    """

    usd_per_mib: Decimal
    free_mib: int
    source: Source


METRICS = MetricsRate(
    Decimal("0.2580"),
    150,
    Source(
        where="https://cloud.google.com/stackdriver/pricing, archived",
        date=date(2026, 11, 29),
    ),
)


@dataclass(frozen=True, slots=True)
class AlertingRate:
    """The price of the queries of alert policies in Cloud Monitoring.

    Attributes:
        usd_per_reference: US dollars a month for each reference to a metric in a query.
        usd_per_million: US dollars for a million points that the queries return.
        begins: the day before which nothing is charged.
        source: where the price was read.
    """

    usd_per_reference: Decimal
    usd_per_million: Decimal
    begins: date
    source: Source


ALERTING = AlertingRate(
    Decimal("0.35"),
    Decimal("0.50"),
    date(2027, 9, 1),
    Source(
        where="https://cloud.google.com/stackdriver/pricing: no sooner than then (as three public"
        " repositories quote it)",
        date=date(2026, 9, 4),
    ),
)


@dataclass(frozen=True, slots=True)
class TransferRate:
    """A price of the network between two regions.

    Attributes:
        usd_per_gib: US dollars for one GiB, at most.
        source: where the price was read.
    """

    usd_per_gib: Decimal
    source: Source


#: Google's page writes these by a script: the figures are the upper ends of a public cost note's,
#: for regions of the United States.
_NETWORK = Source(
    where="https://cloud.google.com/storage/pricing, data transfer within Google Cloud, from"
    " https://brainagents.ai/gcpfinops/blog/gcp-network-egress-cross-region-costs",
    date=date(2026, 11, 23),
)
#: From one continent to another. Within one region nothing is paid.
TRANSFER: dict[tuple[str, ...], TransferRate] = {
    ("North America", "North America"): TransferRate(Decimal("0.02"), _NETWORK),
    ("North America", "Europe"): TransferRate(Decimal("0.08"), _NETWORK),
}
#: Google's month: a year's hours by twelve (https://cloud.google.com/storage/pricing).
_HOURS_PER_MONTH = 730
#: Continents as the prices name them, by the first word of a region.
_CONTINENTS = {"us": "North America", "northamerica": "North America", "europe": "Europe"}


def storage_per_month(size: int, region: str) -> Decimal | None:
    """US dollars for ``size`` bytes of standard storage in ``region`` during a month; None where
    nobody has read the price."""
    rate = STORAGE.get(region)
    if rate is None:
        return None
    dollars = Decimal(size) / GIB * rate.usd_per_hour * _HOURS_PER_MONTH
    return dollars.quantize(Decimal("0.01"))


def month_text(size: int, region: str) -> str:
    """What storing ``size`` bytes costs, in words."""
    dollars = storage_per_month(size, region)
    if dollars is None:
        return f"the price of storage in {region} was not read"
    return f"${dollars} a month" if dollars or not size else "less than $0.01 a month"


def transfer_dollars(size: int, origin: str, target: str) -> Decimal | None:
    """US dollars at most for ``size`` bytes from the region ``origin`` to ``target``, rounded up to
    a cent; None where nobody has read the price."""
    if origin == target:
        return Decimal(0)
    rate = TRANSFER.get((_continent(origin), _continent(target)))
    if rate is None:
        return None
    dollars = Decimal(size) / GIB * rate.usd_per_gib
    return dollars.quantize(Decimal("0.01"), rounding=ROUND_CEILING)


def transfer_text(size: int, origin: str, target: str) -> str:
    """What copying ``size`` bytes costs, in words."""
    dollars = transfer_dollars(size, origin, target)
    if dollars is None:
        return f"the price of the network from {origin} to {target} was not read"
    if not dollars:
        return "the network costs nothing within a region"
    return f"the network costs ${dollars} at most"


def _continent(region: str) -> str:
    word = region.partition("-")[0]
    return _CONTINENTS.get(word, word)
