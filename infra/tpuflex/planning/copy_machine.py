"""The machine that copies a model within its region: its type, how long it may run, and what it
costs. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import ROUND_CEILING, Decimal

from tpuflex.catalog.rows import Source

#: Four cores, because each byte is summed three times; its 16 GB hold all chunks under way.
MACHINE_TYPE = "e2-standard-4"
DISK_GB = 10


@dataclass(frozen=True, slots=True)
class Price:
    """What one part of the machine costs.

    Attributes:
        what: the part.
        per_hour: dollars per hour, in us-central1.
        source: where that is said.
    """

    what: str
    per_hour: Decimal
    source: Source


def _read(where: str) -> Source:
    return Source(where=where, date=date(2026, 11, 23))


#: Google's pages write these by a script: the figures are those of others' tables (of the Cloud
#: Billing catalogue: 0.02181159 a core, 0.00292353 a GB), where the page was not read itself.
PRICES = (
    Price(
        MACHINE_TYPE,
        Decimal("0.13402"),
        _read("https://cloud.google.com/compute/all-pricing, from others' tables"),
    ),
    Price(
        "external IPv4 address",
        Decimal("0.005"),
        _read("https://cloud.google.com/vpc/network-pricing, from others' tables"),
    ),
    Price(
        f"{DISK_GB} GB of pd-standard",
        Decimal("0.0006"),
        _read("https://cloud.google.com/compute/disks-image-pricing"),
    ),
)
#: Bytes per second that a copy brings at least, and is expected to bring. Assumed: nobody has
#: measured it on Google.
_SLOWEST, _EXPECTED = 20e6, 100e6
#: Seconds until the machine copies, and what any copy may take.
_BOOT, _SHORTEST_LIMIT = 60, 1800
_LONGEST_LIMIT = 24 * 3600


@dataclass(frozen=True, slots=True)
class CopyEstimate:
    """How long a copy takes, and what it costs.

    Attributes:
        limit_seconds: after this Google deletes the machine, whatever happens.
        expected_seconds: how long it is expected to run.
    """

    limit_seconds: int
    expected_seconds: int

    @property
    def expected_dollars(self) -> Decimal:
        """What it is expected to cost, rounded up to a cent."""
        return _dollars(self.expected_seconds)

    @property
    def most_dollars(self) -> Decimal:
        """What it costs at most, rounded up to a cent."""
        return _dollars(self.limit_seconds)


def estimate(total_bytes: int) -> CopyEstimate:
    """The estimate for a copy of ``total_bytes``."""
    limit = _SHORTEST_LIMIT + int(total_bytes / _SLOWEST)
    return CopyEstimate(min(limit, _LONGEST_LIMIT), _BOOT + int(total_bytes / _EXPECTED))


def _dollars(seconds: int) -> Decimal:
    exact = sum((price.per_hour for price in PRICES), Decimal(0)) * seconds / 3600
    return exact.quantize(Decimal("0.01"), ROUND_CEILING)
