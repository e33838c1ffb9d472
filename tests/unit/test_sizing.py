"""Memory plans and recommendations for models that are named, or whose files are read."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from tests.checkpoints import gemma4_e2b
from tpuflex.catalog.catalog import builtin
from tpuflex.errors import NotFoundError, UsageError
from tpuflex.sizing import (
    CheckpointReader,
    MemoryChoice,
    MemoryReport,
    Workload,
    memory_report,
    recommendation_for,
)

READER = CheckpointReader(environ={}, today=date(2026, 11, 21), say=print)
E2B = "google/gemma-4-E2B-it"


def report(model: str | None, checkpoint: Path | None = None) -> MemoryReport:
    """The report of a model, or of a checkpoint, on one chip."""
    choice = MemoryChoice(model, checkpoint, "v6e-1", {"max_model_len": 2048})
    return memory_report(choice, builtin(), READER)


def test_a_checkpoint_is_planned_as_its_row_is(tmp_path: Path) -> None:
    """The headers of a known model give the plan of its row, byte by byte."""
    directory = gemma4_e2b().write(tmp_path / "own-e2b")
    read, listed = report(None, directory), report(E2B)

    assert (read.plan.request.model.name, listed.plan.request.model.name) == ("own-e2b", E2B)
    assert read.files is not None
    assert read.files.where.startswith(str(directory))
    assert listed.files is None
    figures = ("weight_bytes", "kv_bytes", "blocks", "cached_tokens", "programs")
    assert {name: read.to_json()[name] for name in figures} == {
        name: listed.to_json()[name] for name in figures
    }


def test_an_unknown_model_has_neighbours() -> None:
    """A name that the catalog does not have is refused with what may have been meant."""
    with pytest.raises(NotFoundError, match="Did you mean google/gemma-4-31B-it"):
        report("google/gemma-4-31B")


def test_what_is_said_overrides_the_scenario() -> None:
    """A scenario fills in what a workload leaves open, and nothing else."""
    workload = Workload(
        models=("google/gemma-4-E4B-it",),
        context=2048,
        budget=Decimal(2),
        scenario="interactive-api",
    )
    found = recommendation_for(workload, builtin(), READER)

    assert found.requirements is not None
    assert found.requirements.to_json() == {
        "context": 2048,
        "concurrency": 16,
        "ttft_seconds": 1.0,
        "budget_usd_per_hour": 2.0,
    }
    best = found.options[0]
    assert (best.request.accelerator.name, best.budget) == ("v6e-1", "within")


def test_a_scenario_for_another_tool() -> None:
    """It is answered with that tool; with a model named, chips are ranked all the same."""
    alone = Workload(scenario="serverless")
    named = replace(alone, models=("google/gemma-4-E4B-it",), context=2048, concurrency=8)

    assert recommendation_for(alone, builtin(), READER).options == ()
    assert recommendation_for(named, builtin(), READER).options


@pytest.mark.parametrize(
    ("workload", "said", "option"),
    [
        (Workload(), "Missing --model: ", ""),
        (Workload(scenario="edge", budget=Decimal(5)), "Add --model to rank chips", ""),
        (Workload(scenario="batch", context=9_000_000), "tokens are too many: ", "--context"),
    ],
)
def test_a_workload_that_says_too_little(workload: Workload, said: str, option: str) -> None:
    """What is missing or contradicts itself is a wrong question, with what to ask instead."""
    with pytest.raises(UsageError, match=said) as caught:
        recommendation_for(workload, builtin(), READER)

    assert caught.value.option == option
