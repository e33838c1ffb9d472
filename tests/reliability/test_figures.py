"""The figures of `make reliability` that start no process, as a seeded sample; and their sums."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reliability import faults, histories, run
from reliability.cases import Case, Figure, Result, judged, sample
from reliability.run import FIGURES, Outcome
from reliability.servicer_rig import ServicerRig

SEED = 1


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServicerRig]:
    with ServicerRig(tmp_path_factory.mktemp("servicer") / "emulator") as made:
        yield made


def measured(figure: Figure, rig: object, cases: list[Case]) -> Outcome:
    return Outcome(figure, len(cases), [judged(figure, rig, case) for case in cases])


def failed(outcome: Outcome) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(result.name, result.problems) for result in outcome.results if result.problems]


def test_single_faults_converge_or_are_typed(rig: ServicerRig) -> None:
    """Figure 3: each fault at one call of each command."""
    shuffled = reversed(sample(faults.cases(rig, SEED), SEED))
    chosen = {(case.facts["command"], case.facts["fault"]): case for case in shuffled}
    outcome = measured(faults.FIGURE, rig, list(chosen.values()))
    assert failed(outcome) == []
    assert outcome.struck >= len(chosen) > 100


def test_random_histories_violate_nothing(rig: ServicerRig) -> None:
    """Figure 4, 100 histories."""
    outcome = measured(histories.FIGURE, rig, histories.cases(rig, SEED, 100))
    assert failed(outcome) == []
    assert outcome.passed


def test_the_strict_cloud_makes_no_difference(tmp_path: Path) -> None:
    """Figures 3 and 4 in a new project of the strict cloud."""
    with ServicerRig(tmp_path / "emulator", strict=True) as rig:
        single = measured(faults.FIGURE, rig, sample(faults.cases(rig, SEED), SEED)[:15])
        random = measured(histories.FIGURE, rig, histories.cases(rig, SEED, 12))
    assert failed(single) == failed(random) == []
    assert single.struck >= 15
    assert random.passed


def told(rig: ServicerRig, *steps: str | tuple[str, object] | int) -> list[int | None]:
    """Play a history of commands, changes of inputs and seconds that pass; the codes of its `up`
    and of those that settle it."""
    plan = [
        {"do": "advance", "seconds": step}
        if isinstance(step, int)
        else {"do": step, "rules": []}
        if isinstance(step, str)
        else {"do": "change", "key": step[0], "value": step[1]}
        for step in steps
    ]
    case = Case("told", {"seed": 1, "steps": plan})
    assert failed(measured(histories.FIGURE, rig, [case])) == []
    return [command.exit_code for command in rig.commands if command.name == "up"]


def test_the_end_of_a_run_is_told_and_nothing_is_bought(rig: ServicerRig) -> None:
    """Run out, cleaned up, asked for again."""
    assert told(rig, ("onRunEnd", "delete"), "up", 15_000, "up") == [0, 1, *[1, 0, 0]]


def test_the_accepted_end_of_a_run_is_no_failure_and_nothing_is_bought(rig: ServicerRig) -> None:
    """With `on_run_end: accept` each `up` after the end succeeds, also one that changes inputs."""
    labels = ("labels", {"team": "word"})
    steps = (("onRunEnd", "accept"), "up", 15_000, "up", labels, "up")
    assert told(rig, *steps) == [0, 0, 0, *[0, 0, 0]]


def test_changing_what_a_changed_boot_does_is_no_other_slice(rig: ServicerRig) -> None:
    """`on_boot_change` is part of how a request is recognised, but not for its own state."""
    key = "onBootChange"
    assert set(told(rig, "up", (key, "update"), "up", (key, "replace"), "up")) == {0}


@pytest.mark.parametrize(("misses", "good"), [(2, True), (3, False)])
def test_a_fault_that_missed_is_tried_again(misses: int, good: bool) -> None:
    """Twice at most; what still misses is the rig's failure."""
    missed = [Result("a", problems=[("rig", "nobody to kill")])] * misses
    results = iter([*missed, Result("a", struck=1)])
    figure = replace(faults.FIGURE, judge=lambda _rig, _case: next(results))

    assert (not judged(figure, None, Case("a", {})).problems) is good


def test_a_figure_that_injected_nothing_has_failed() -> None:
    """Neither no case at all nor cases without a strike pass, nor one with a problem."""
    well, bad = Result("a", struck=1), Result("b", struck=1, problems=[("orphan", "I1: q")])
    passed = {
        name: Outcome(faults.FIGURE, 9, results).passed
        for name, results in {
            "none": [],
            "idle": [Result("a")],
            "bad": [well, bad],
            "well": [well],
            "nothing meant": [Result("a", must_strike=False)],
        }.items()
    }
    assert {name for name, each in passed.items() if each} == {"well", "nothing meant"}


def test_a_row_says_what_was_sampled_and_what_was_found() -> None:
    """Numerator, denominator, and kinds of problems, also those that nothing has."""
    bad = Result("b", struck=1, problems=[("orphan", "I1: q | is in the cloud")])
    row = Outcome(FIGURES["14"], 10, [Result("a", struck=1), bad]).row("today", strict=True)
    assert row.startswith("| 14-strict |")
    assert row.endswith(
        "| 1/2 | 2 of 10 (sampled) | 2 | 0 duplicate, 0 half, 0 lost, 0 manual, 1 orphan | today |"
    )


def test_a_budget_is_a_number_and_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not one is refused in words; so is a figure that is not there."""
    assert run._seconds("6m") == 360
    with pytest.raises(argparse.ArgumentTypeError, match="not a time"):
        run._seconds("soon")
    assert run.main(["--figures", "77"]) == 2
    assert "no figure 77" in capsys.readouterr().err
