"""What the network between two regions costs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tpuflex.planning.rates import transfer_dollars, transfer_text

GIB = 2**30


@pytest.mark.parametrize(
    ("size", "origin", "target", "dollars"),
    [
        (62 * GIB, "us-east5", "us-east5", "0"),
        (62 * GIB, "us-east5", "us-central1", "1.24"),
        (62 * GIB, "us-east5", "northamerica-northeast1", "1.24"),
        (62 * GIB, "us-east5", "europe-west4", "4.96"),
        (1, "us-east5", "us-central1", "0.01"),
        (62 * GIB, "europe-west4", "us-east5", None),
        (62 * GIB, "us-east5", "asia-northeast1", None),
    ],
)
def test_a_copy_is_priced_where_somebody_has_read_the_price(
    size: int, origin: str, target: str, dollars: str | None
) -> None:
    """Within a region nothing; else by continent, rounded up; and never guessed."""
    assert transfer_dollars(size, origin, target) == (None if dollars is None else Decimal(dollars))
    text = transfer_text(size, origin, target)
    assert (f"${dollars} at most" in text) is (dollars not in (None, "0"))
    assert ("was not read" in text) is (dollars is None)
