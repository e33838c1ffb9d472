"""What a stack costs: linear in time, with overlap, storage and network."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.stack_sections import sections
from tpuflex.alerts.promql import cloud_monitoring, promql
from tpuflex.alerts.rules import alert_rules
from tpuflex.catalog.catalog import builtin
from tpuflex.planning.figure import Figure
from tpuflex.planning.stack_cost import (
    Usage,
    chips_for,
    renewed_chip_hours,
    stack_cost,
    usage_of,
)
from tpuflex.planning.token_cost import Throughput, token_prices, usd_per_million
from tpuflex.settings.load import parse

CATALOG = builtin()
HOURS = st.decimals(min_value=0, max_value=1000, places=3)


def usage(**changes: object) -> Usage:
    """Four v6e chips in us-east5 for four hours, with the 31B model."""
    values: dict[str, object] = {
        "accelerator": CATALOG.accelerators["v6e-4"],
        "price": CATALOG.price("v6e", "us-east5"),
        "region": "us-east5",
        "run": timedelta(hours=4),
        "weights": CATALOG.models["google/gemma-4-31B-it"],
        **changes,
    }
    return Usage(**values)  # type: ignore[arg-type]


def test_chips_by_the_hour() -> None:
    """Four chips at $1.35: $5.40 an hour, $21.60 a run of four hours, $129.60 a day."""
    cost = stack_cost(usage())

    assert [cost.per_hour.value, cost.per_run.value, cost.per_day.value] == [
        Decimal("5.40"),
        Decimal("21.60"),
        Decimal("129.60"),
    ]
    assert cost.per_day_renewed is None


def test_renewal_overlaps() -> None:
    """Runs of four hours of which each overlaps the next by one bill 32 hours a day."""
    cost = stack_cost(usage(renew_before=timedelta(hours=1)))

    assert cost.per_day_renewed is not None
    assert cost.per_day_renewed.value == Decimal("172.80")


def test_what_is_paid_between_runs() -> None:
    """Weights and DNS zones go on costing while there is no slice."""
    cost = stack_cost(usage())

    assert float(cost.weights_per_day.value or 0) == pytest.approx(0.0383, abs=0.0005)
    assert cost.network_per_day.value == Decimal("0.019726056")
    between = float(cost.between_runs_per_day.value or 0)
    assert between == pytest.approx(float(cost.weights_per_day.value or 0) + 0.019726056)


def test_nat_is_paid_by_the_host() -> None:
    """With NAT instead of DNS zones, each host and one address are paid by the hour."""
    cost = stack_cost(usage(egress="internet"))

    assert cost.network_per_day.value == Decimal("0.1536")


@pytest.mark.parametrize("price", [None, CATALOG.price("v6e", "us-central1")])
def test_unknown_prices_stay_unknown(price: object) -> None:
    """Without a price nothing that depends on it is known, and the reason is said."""
    cost = stack_cost(usage(price=price, renew_before=timedelta(hours=1)))

    assert cost.per_day_renewed is not None
    for figure in (cost.per_hour, cost.per_run, cost.per_day, cost.per_day_renewed):
        assert figure.value is None
        assert figure.basis


def test_storage_of_an_unknown_region_or_model() -> None:
    """Where storage was not priced, or the model is unknown, the storage is not known."""
    assert stack_cost(usage(region="asia-northeast1")).weights_per_day.value is None
    assert stack_cost(usage(weights=None)).weights_per_day.value is None


def test_every_known_figure_has_a_source() -> None:
    """No amount without its source."""
    cost = stack_cost(usage(renew_before=timedelta(hours=1), alert_references=1))
    figures = [value for name in cost.__slots__ if isinstance(value := getattr(cost, name), Figure)]

    assert len(figures) == 9
    assert all(figure.sources for figure in figures)


@given(price=st.decimals(min_value="0.01", max_value=100, places=4), a=HOURS, b=HOURS)
def test_cost_is_linear_in_hours(price: Decimal, a: Decimal, b: Decimal) -> None:
    """The cost of two spans is the sum of their costs."""
    assert chips_for(price, 4, a + b) == chips_for(price, 4, a) + chips_for(price, 4, b)


@given(
    run=st.integers(600, 604_800),
    overlap=st.integers(0, 604_799),
    hours=st.integers(1, 1000),
)
def test_overlap_only_adds(run: int, overlap: int, hours: int) -> None:
    """Renewed hours are at least the hours in service, and twice the time costs twice as much."""
    span, shared = timedelta(seconds=run), timedelta(seconds=overlap)
    if overlap >= run:
        with pytest.raises(ValueError, match="longer than the overlap"):
            renewed_chip_hours(Decimal(hours), span, shared)
        return
    billed = renewed_chip_hours(Decimal(hours), span, shared)

    assert billed >= hours
    assert renewed_chip_hours(Decimal(2 * hours), span, shared) == pytest.approx(2 * billed)


@given(
    rate=st.floats(0.001, 1e9),
    busy=st.floats(0.001, 1),
    per_hour=st.decimals(min_value="0.01", max_value=1000, places=2),
)
def test_idle_time_is_paid(rate: float, busy: float, per_hour: Decimal) -> None:
    """A server that idles makes each token dearer, by as much as it idles."""
    full = usd_per_million(per_hour, Throughput(rate))
    part = usd_per_million(per_hour, Throughput(rate, busy))

    assert float(part) == pytest.approx(float(full) / busy)
    assert float(full) == pytest.approx(float(per_hour) / (rate * 3600) * 1e6)


def test_a_claimed_throughput_is_judged() -> None:
    """The price of a million tokens at a claim above the ceiling comes with a flag."""
    per_hour = stack_cost(usage()).per_hour
    prices = token_prices(
        CATALOG.accelerators["v6e-4"],
        CATALOG.models["google/gemma-4-31B-it"],
        per_hour,
        Throughput(463_345),
    )

    assert prices.judgement is not None
    assert prices.judgement.verdict == "impossible"
    assert prices.given is not None
    assert float(prices.given.value or 0) == pytest.approx(0.003237, rel=1e-3)
    assert (prices.least.value or 0) > (prices.given.value or 0)


def test_metrics_cost_what_is_beyond_the_free_ones() -> None:
    """Ten numbers and a distribution a minute are 0.22 MiB a day; a stack that writes none pays
    nothing."""
    cost = stack_cost(usage()).metrics_per_day

    assert cost.value == pytest.approx(Decimal("0.0567"), abs=Decimal("0.0001"))
    assert cost.basis.startswith("0.22 MiB at $0.2580; nothing while")
    assert stack_cost(usage(metrics=False)).metrics_per_day.value == 0


def test_alert_policies_are_paid_by_what_they_ask_for() -> None:
    """Each metric that a query names is $0.35 a month, and a point a minute and host; how often
    they are named is counted in the queries themselves. Google charges nothing yet, and the day on
    which that may end is said."""
    settings = parse(sections({"monitoring": {"alert_policies": True}}), "test")
    queries = [
        promql(rule.cloud_condition, cloud_monitoring("dev"))
        for rule in alert_rules(settings)
        if rule.cloud_condition is not None
    ]
    references = sum(query.count("workload_googleapis_com:") for query in queries)

    assert usage_of(settings).alert_references == references > 0
    cost = stack_cost(usage(alert_references=references)).alerts_per_day
    points = references * 1440 * 0.5 / 1_000_000
    assert float(cost.value or 0) == pytest.approx(references * 0.35 / 30 + points)
    assert "nothing before 2027-09-01" in cost.basis
    assert stack_cost(usage()).alerts_per_day.value == 0
    assert usage_of(parse(sections(), "test")).alert_references == 0
