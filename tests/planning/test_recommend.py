"""Options are ranked by rules that hold for every model, load and budget."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpuflex.catalog.catalog import builtin
from tpuflex.catalog.rows import CatalogRows, Model, Price
from tpuflex.planning.compatibility import Level, compatibility
from tpuflex.planning.first_token import judge_first_token
from tpuflex.planning.recommend import Option, Requirements, recommend
from tpuflex.planning.request import Load
from tpuflex.planning.scenarios import SCENARIOS, nearest_scenarios, scenario

CATALOG = builtin()
DENSE = CATALOG.models["google/gemma-4-31B-it"]
EXPERTS = CATALOG.models["google/gemma-4-26B-A4B-it"]
V6E_4 = CATALOG.accelerators["v6e-4"]

REQUIREMENTS = st.builds(
    Requirements,
    load=st.builds(Load, context=st.integers(1, 300_000), concurrency=st.integers(1, 2048)),
    ttft=st.none() | st.floats(0.001, 100),
    budget=st.none() | st.decimals(min_value="0.5", max_value=50, places=2),
)


def options(requirements: Requirements, *names: str) -> tuple[Option, ...]:
    return recommend([CATALOG.models[name] for name in names], requirements, CATALOG).options


@given(
    names=st.sets(st.sampled_from(sorted(CATALOG.models)), min_size=1, max_size=3),
    requirements=REQUIREMENTS,
)
@settings(max_examples=60, deadline=None)
def test_the_order(names: set[str], requirements: Requirements) -> None:
    """What does not fit is never above what fits, and what exceeds the budget never above what
    keeps it; what holds the load costs more only where it answers sooner."""
    ranked = options(requirements, *sorted(names))
    fits = [option.fit for option in ranked]
    budgets = [option.budget for option in ranked if option.fit == "fits"]

    assert fits == sorted(fits, key=["fits", "does_not_fit", "not_known"].index)
    assert budgets == sorted(budgets, key=["within", "not_asked", "not_known", "over"].index)
    for option in ranked:
        total = option.total.value
        assert (option.limits is not None) == (option.fit == "fits")
        assert bool(option.obstacle) == (option.fit != "fits")
        if option.fit == "fits" and total is not None and requirements.budget is not None:
            assert (option.budget == "within") == (total <= requirements.budget)
        if option.limits is not None and option.stacks.value is not None:
            held = int(option.limits.sequences.value or 0)
            assert option.stacks.value * held >= requirements.load.concurrency
            assert (option.stacks.value - 1) * held < requirements.load.concurrency


@given(requirements=REQUIREMENTS)
@settings(max_examples=30, deadline=None)
def test_options_that_fit_hold_a_sequence(requirements: Requirements) -> None:
    """What fits holds one sequence of full length at least, and never decodes beyond the
    arithmetic ceiling."""
    for option in options(requirements, EXPERTS.name):
        if option.limits is not None:
            assert (option.limits.sequences.value or 0) >= 1
            assert (option.limits.decode.value or 0) <= (option.limits.arithmetic.value or 0)


def test_the_cheapest_region_wins() -> None:
    """A user's price row moves the option to the region that it makes cheaper."""
    row = Price.model_validate(
        {
            "generation": "v6e",
            "region": "europe-west4",
            "kind": "flex_start",
            "usd_per_chip_hour": "0.99",
            "source": {"where": "a contract", "date": "2026-11-01"},
        }
    )
    catalog = CATALOG.extended(CatalogRows(prices=(row,)))
    requirements = Requirements(load=Load(context=4096, concurrency=8))
    best = recommend([DENSE], requirements, catalog).options[0]

    assert best.per_hour.value == Decimal("0.99") * best.request.accelerator.chips
    assert best.zones == ("europe-west4-a",)


def test_many_users_take_many_stacks() -> None:
    """Where no stack holds the load, an option is as many as do, and costs as much; the price of
    generated tokens stays that of one."""
    requirements = Requirements(
        load=Load(context=16_384, concurrency=1024), budget=Decimal("20.00")
    )
    ranked = options(requirements, "google/gemma-4-E2B-it")
    best = next(option for option in ranked if option.total.value is not None)

    assert best.request.accelerator.name == "v6e-1"
    assert (best.stacks.value, best.total.value) == (15, 15 * Decimal("1.35"))
    assert best.budget == "over"
    assert best.limits is not None
    assert best.limits.decode.value is not None
    assert best.limits.usd_per_million_generated.value == pytest.approx(
        Decimal(1_350_000) / (Decimal(best.limits.decode.value) * 3600), abs=Decimal("0.0001")
    )


def taller(layers: int) -> Model:
    """Llama 70B with so many layers."""
    return CATALOG.models["meta-llama/Llama-3.3-70B-Instruct"].model_copy(
        update={"name": "own/tall", "layers": layers}
    )


@pytest.mark.parametrize(
    ("layers", "chips", "cache"),
    [
        (160, "", ""),  # its weights leave v5p-8 room for an fp8 cache
        (200, "v5p-8", "fp8"),  # for a shorter one
        (300, "", ""),  # for none
    ],
)
def test_what_comes_nearest(layers: int, chips: str, cache: str) -> None:
    """Where nothing fits, the longest context that does is found, with its price; where the weights
    alone are too large, the chips that lack least; and chips that tpuflex cannot ask for are
    named where they hold the model."""
    load = Load(context=131_072, concurrency=2)
    found = recommend([taller(layers)], Requirements(load=load), CATALOG)

    assert (found.nearest is None) == (layers == 160) == (found.options[0].fit == "fits")
    if found.nearest is None:
        return
    assert found.nearest.elsewhere == ("tpu7x-8",)
    if chips:
        shorter = found.nearest.shorter
        assert shorter is not None
        assert shorter.fit == "fits"
        assert (shorter.request.accelerator.name, shorter.request.kv_cache_dtype) == (chips, cache)
        assert 65_536 < shorter.request.max_model_len < load.context
        assert found.nearest.roomiest is None
    else:
        assert found.nearest.shorter is None
        assert found.nearest.roomiest is not None
        assert found.nearest.roomiest.request.accelerator.name == "v5p-8"


def test_evidence_does_not_outweigh_a_price() -> None:
    """Of options that hold the load the cheapest leads, though a dearer one was seen."""
    requirements = Requirements(load=Load(context=4096, concurrency=8))
    first = options(requirements, "meta-llama/Llama-3.1-8B-Instruct")[0]

    assert first.request.accelerator.name == "v6e-1"
    assert first.seen.level is not Level.SERVED


@pytest.mark.parametrize(
    ("model", "load", "target", "verdict"),
    [
        (DENSE, Load(context=16_384, concurrency=1), 0.1, "impossible"),  # 0.26 s at peak
        (DENSE, Load(context=4096, concurrency=16), 1.0, "not_known"),  # its prompts were cached
        (DENSE, Load(context=128, concurrency=1), 0.5, "met"),
        (DENSE, Load(context=128, concurrency=1), 0.3, "missed"),
        (EXPERTS, Load(context=16_384, concurrency=256), 2.0, "missed"),
        (EXPERTS, Load(context=8192, concurrency=256), 5.0, "met"),
        (EXPERTS, Load(context=16_384, concurrency=1024), 60.0, "met"),
        (EXPERTS, Load(context=128, concurrency=2048), 60.0, "not_known"),
        (DENSE, Load(context=4096, concurrency=16), None, "not_asked"),
    ],
)
def test_first_tokens(model: object, load: Load, target: float | None, verdict: str) -> None:
    """A target is judged by arithmetic or by a measurement under at least the same load, and is
    not known otherwise: a measurement whose prompts cannot have been computed proves nothing."""
    known = judge_first_token(model, V6E_4, load, target)  # type: ignore[arg-type]

    assert known.verdict == verdict
    assert (verdict == "not_asked") == (not known.text)
    assert known.sources or verdict == "not_asked"


def test_what_was_seen() -> None:
    """A report of the type counts for more than one of the generation, and that more than none."""
    seen = {
        name: compatibility(DENSE, row).level
        for name, row in CATALOG.accelerators.items()
        if row.hosts == 1 and row.flex_start_api
    }

    assert seen["v6e-4"] is Level.SERVED
    assert seen["v5litepod-1"] is Level.NOTHING


class TestScenarios:
    def test_names(self) -> None:
        """Names are unique, and a misspelt one has a neighbour."""
        names = [row.name for row in SCENARIOS]

        assert len(names) == len(set(names))
        assert scenario("interactive-api") is SCENARIOS[0]
        assert scenario("interactive") is None
        assert nearest_scenarios("interactiv-api")[0] == "interactive-api"

    @pytest.mark.parametrize("row", SCENARIOS, ids=lambda row: row.name)
    def test_complete(self, row: object) -> None:
        """A scenario either has everything that a recommendation needs, of models that are known,
        or says what to use instead, where that is documented."""
        assert isinstance(row, type(SCENARIOS[0]))
        if row.elsewhere is not None:
            assert row.elsewhere.sources
            assert not row.models
        else:
            assert row.models
            assert set(row.models) <= set(CATALOG.models)
            assert row.context is not None
            assert row.concurrency is not None
