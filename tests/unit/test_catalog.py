"""Catalog rows agree with each other and say where they come from."""

from __future__ import annotations

from tpuflex.catalog.accelerators import ACCELERATORS, accelerator, nearest_accelerators
from tpuflex.catalog.models import MODELS, model
from tpuflex.catalog.prices import PRICES, price
from tpuflex.catalog.zones import (
    REGIONS,
    ZONES,
    accepting_zones,
    is_misspelt,
    nearest_zones,
    region_of,
)


def test_chips_match_name_and_topology() -> None:
    """v6e-N has N chips, arranged as the topology says, at most 8 on one host."""
    for name, row in ACCELERATORS.items():
        width, height = map(int, row.topology.split("x"))

        assert name == f"{row.generation}-{row.chips}"
        assert width * height == row.chips
        assert row.chips // row.hosts <= 8


def test_unknown_names_give_none_and_neighbours() -> None:
    """A lookup never guesses; suggestions are there for messages, always the number asked."""
    assert accelerator("v7x-4") is None
    assert nearest_accelerators("v6-4")[0] == "v6e-4"
    assert len(nearest_accelerators("something else")) == 3
    assert model("nobody/nothing") is None
    assert price("v6e", "mars-north1") is None


def test_every_zone_lies_in_a_known_region() -> None:
    """Zones and regions are spelt alike, and prices are for regions."""
    assert {region_of(zone) for zone in ZONES} <= set(REGIONS)
    assert {region for _, region in PRICES} <= set(REGIONS)


def test_no_price_is_invented() -> None:
    """Where a price was not read, there is a row without one."""
    unread = price("v6e", "us-central1")

    assert unread is not None
    assert unread.usd_per_chip_hour is None


def test_documented_zones_are_named_first() -> None:
    """Suggestions begin with what Google documents."""
    assert accepting_zones()[0] == "us-east5-a"
    assert "southamerica-west1-a" in accepting_zones()
    assert "us-central1-b" not in accepting_zones()


def test_spelling_is_told_from_novelty() -> None:
    """Wrong letters are a mistake; a new number may be a new region."""
    assert is_misspelt("us-esat5-a")
    assert is_misspelt("europe-wset4-a")
    assert not is_misspelt("us-east9-a")
    assert not is_misspelt("us-east5-d")
    assert not is_misspelt("mars-north1-a")
    assert nearest_zones("us_east5_a")[0] == "us-east5-a"


def test_every_row_has_a_source_and_a_date() -> None:
    """A fact without provenance cannot be checked again."""
    sources = [
        *(row.source for row in ACCELERATORS.values()),
        *(row.source for row in ZONES.values()),
        *(row.source for row in PRICES.values()),
        *(row.source for row in MODELS.values()),
    ]

    assert all(source.where and source.date.year >= 2025 for source in sources)
