"""Costs are exact, and unknown where a price is unknown."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from tests.unit.stack_sections import embedded, sections
from tpuflex.planning.cost import cost_in, run_cost
from tpuflex.planning.stack_cost import cost_report, stack_cost
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


def priced(**prices: str | None) -> dict[str, object]:
    """Sections of a stack with zones in two regions, whose v6e chips cost that much."""
    source = {"where": "a test", "date": "2026-11-23"}
    rows = [
        {
            "generation": "v6e",
            "region": region.replace("_", "-"),
            "kind": "flex_start",
            "source": source,
            **({"usd_per_chip_hour": price} if price else {}),
        }
        for region, price in prices.items()
    ]
    return sections(
        {
            "slice.zones": ["us-east5-a", "europe-west4-a"],
            "model.weights.bucket": "library",
            "network.subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"},
            "catalog": {"prices": rows},
        }
    )


def test_several_regions_cost_at_most_the_dearest() -> None:
    """Before it is known which zone grants, the price is that of the dearest region; of a slice
    that is somewhere it is that of its zone. One price that is not known makes the most unknown."""
    settings = parse(priced(us_east5="1", europe_west4="2"), "test")
    unread = parse(priced(us_east5="1", europe_west4=None), "test")

    assert run_cost(settings).per_hour == Decimal("8.00")
    assert cost_in(settings, "us-east5-a").per_hour == Decimal("4.00")
    assert cost_in(settings, "europe-west4-a").per_hour == Decimal("8.00")
    assert cost_in(settings, "") == run_cost(settings)
    assert run_cost(unread).per_hour is None
    assert cost_in(unread, "us-east5-a").per_hour == Decimal("4.00")


def test_what_several_regions_have_each() -> None:
    """`tpuflex cost` shows the dearest region and the others' prices; the weights are stored, and
    NAT has an address, in each of them."""
    sections_ = priced(us_east5="1", europe_west4="2") | {
        "network": {"egress": "internet", "subnetwork_cidrs": {"europe-west4": "10.128.16.0/20"}}
    }
    settings = parse(sections_, "test")
    bill = cost_report("prod", settings).bill
    assert bill is not None
    usage = bill.usage
    one = stack_cost(replace(usage, further=()))
    two = stack_cost(usage)

    assert (usage.region, usage.further) == ("europe-west4", ("us-east5",))
    assert {region: figure.value for region, figure in bill.elsewhere.items()} == {
        "us-east5": Decimal(4)
    }
    assert Decimal(str(two.weights_per_day.value)) == 2 * Decimal(str(one.weights_per_day.value))
    assert "2 addresses" in two.network_per_day.basis
    assert Decimal(str(two.network_per_day.value)) > Decimal(str(one.network_per_day.value))
    unread = stack_cost(replace(usage, further=("asia-east1",))).weights_per_day
    assert unread.value is None
    assert "storage in asia-east1 was not read" in unread.basis
