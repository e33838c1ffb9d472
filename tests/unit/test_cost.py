"""Costs are exact, and unknown where a price is unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.unit.stack_sections import embedded, sections
from tpuflex.planning.cost import run_cost
from tpuflex.settings.load import parse


def test_cost_is_chips_times_hours_times_price() -> None:
    """Four chips at 1.35 dollars for four hours."""
    cost = run_cost(parse(sections(), "test"))

    assert (cost.chips, cost.per_hour, cost.maximum) == (4, Decimal("5.40"), Decimal("21.60"))
    assert cost.price is not None
    assert cost.price.region == "us-east5"


def test_cost_of_a_broken_hour() -> None:
    """Parts of an hour are paid in parts, to the cent."""
    cost = run_cost(parse(sections({"slice.max_run_duration": "10m"}), "test"))

    assert cost.maximum == Decimal("0.90")


@pytest.mark.parametrize("zone", ["us-central1-a", "us-east9-a"])
def test_an_unknown_price_stays_unknown(zone: str) -> None:
    """No price is guessed for a region whose price was not read, or that is not listed."""
    cost = run_cost(parse(sections({"slice.zones": [zone]}), "test"))

    assert cost.per_hour is None
    assert cost.maximum is None


def test_the_embedded_cloud_is_free() -> None:
    """Nothing is bought on the embedded cloud."""
    cost = run_cost(parse(embedded(), "test"))

    assert cost.per_hour == 0
    assert cost.maximum == 0
