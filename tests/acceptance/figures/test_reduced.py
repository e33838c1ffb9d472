"""The figures of `make reliability`, reduced to a seeded sample that fits into `make test`."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from reliability import records, report, run
from reliability.edge_rig import EdgeRig
from reliability.figures import (
    edges,
    faults,
    histories,
    history_plans,
    kills,
    kills_copy,
    kills_weights,
    shards,
    strict,
    teardown,
)
from reliability.figures.figure import Case, Figure, Outcome, Result, sample
from reliability.figures.pool import judged, rig_for
from reliability.figures.table import FIGURES
from reliability.rig import SliceRig
from reliability.servicer_rig import ServicerRig
from reliability.weights_host import WeightsHost

SEED = 1


@pytest.fixture(scope="module")
def servicer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServicerRig]:
    with ServicerRig(tmp_path_factory.mktemp("servicer") / "emulator") as made:
        yield made


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SliceRig]:
    with SliceRig(tmp_path_factory.mktemp("slice") / "project", speed=10) as made:
        yield made


def measured(figure: Figure, rig: object, cases: list[Case]) -> Outcome:
    began = time.monotonic()
    results = [judged(figure, rig, case) for case in cases]
    return Outcome(figure.key, figure.title, len(cases), results, time.monotonic() - began)


def failed(outcome: Outcome) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(result.name, result.problems) for result in outcome.results if result.problems]


def test_single_faults_converge_or_are_typed(servicer: ServicerRig) -> None:
    """Figure 3, 180 of its cases."""
    cases = sample(faults.cases(servicer, SEED), SEED)[:180]
    outcome = measured(faults.FIGURE, servicer, cases)
    assert failed(outcome) == []
    assert outcome.struck >= len(cases)


def test_random_histories_violate_nothing(servicer: ServicerRig) -> None:
    """Figure 4, 200 histories."""
    outcome = measured(histories.FIGURE, servicer, histories.cases(servicer, SEED, 200))
    assert failed(outcome) == []
    assert not outcome.idle


def test_the_strict_cloud_makes_no_difference(tmp_path: Path) -> None:
    """Figures 3, 4 and 5 in a new project of the strict cloud."""
    with ServicerRig(tmp_path / "emulator", strict=True) as rig:
        at_once = sample(faults.cases(rig, SEED), SEED)[:15]
        single = measured(faults.FIGURE, rig, at_once)
        random = measured(histories.FIGURE, rig, histories.cases(rig, SEED, 12))
    with EdgeRig(tmp_path / "edges", strict=True) as rig:
        first = [case for case in edges.cases(rig, SEED) if case.facts["edge"] == "requested"]
        begun = measured(edges.FIGURE, rig, first)
    assert failed(single) == failed(random) == failed(begun) == []
    assert single.struck >= len(at_once)
    assert not random.idle


@pytest.mark.parametrize("figure", [one for one in FIGURES.values() if one.strict])
def test_every_strict_figure_is_another_one_on_a_strict_cloud(
    tmp_path: Path, figure: Figure
) -> None:
    """It has the cases of the figure that it is named after, and a rig that is strict."""
    usual = FIGURES[figure.key.removesuffix(strict.KEY)]
    assert (figure.cases, figure.judge, figure.rig) == (usual.cases, usual.judge, usual.rig)
    with ExitStack() as rigs:
        for one in (figure, usual):
            rig = rig_for(one, tmp_path / one.key)
            if isinstance(rig, ServicerRig):
                rigs.enter_context(rig)
            assert vars(rig)["strict"] == one.strict


def test_a_plan_is_told_by_its_seed() -> None:
    """Same seed, same steps; and they survive being a file."""
    assert history_plans.plan(7) == history_plans.plan(7)
    assert history_plans.plan(7) != history_plans.plan(8)
    assert json.loads(json.dumps(history_plans.plan(7))) == history_plans.plan(7)


@pytest.mark.engine
@pytest.mark.parametrize("command", ["up", "down"])
def test_a_kill_is_recovered_from(processes: SliceRig, command: str) -> None:
    """Figure 1, one kill after the commit of the call that matters most."""
    method = "create" if command == "up" else "delete"
    facts = {"command": command, "role": "engine", "stage": "after-commit", "nth": 1}
    facts["method_id"] = f"tpu.projects.locations.queuedResources.{method}"
    outcome = measured(kills.FIGURE, processes, [Case("kill", facts)])
    assert failed(outcome) == []
    assert outcome.struck == 1


@pytest.mark.engine
def test_a_push_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Figure 14, everything killed when the library's bucket was just made."""
    facts: dict[str, object] = {"command": "weights push", "stage": "after-commit"}
    facts |= {"method_id": "storage.buckets.insert", "nth": 1}
    with kills_weights.rig(tmp_path) as rig:
        outcome = measured(kills_weights.FIGURE, rig, [Case("push", facts)])
    assert failed(outcome) == []
    assert outcome.struck == 1


@pytest.mark.timeout(240)
def test_a_copy_before_chips_are_asked_for_that_was_killed_goes_on(tmp_path: Path) -> None:
    """Figure 14c, killed in the middle of a large file on its way to another region, and when the
    manifest was just written there."""
    calls = (
        ("before-commit", "storage.objects.rewrite", 2),
        ("after-commit", "storage.objects.insert", 1),
    )
    cases = [
        Case("copy", {"stage": stage, "method_id": method_id, "nth": nth})
        for stage, method_id, nth in calls
    ]
    with kills_copy.rig(tmp_path) as rig:
        outcome = measured(kills_copy.FIGURE, rig, cases)
    assert failed(outcome) == []
    assert outcome.struck == len(cases)


def test_no_damaged_shard_is_served(tmp_path: Path) -> None:
    """Figure 13, ten shards in the bucket and ten on the host: altered, and no server starts with
    them."""
    with WeightsHost(tmp_path) as rig:
        outcome = measured(shards.FIGURE, rig, shards.cases(rig, SEED)[:2])
    assert failed(outcome) == []
    assert outcome.struck == 20


@pytest.mark.engine
def test_what_was_never_granted_is_taken_down_twice(processes: SliceRig) -> None:
    """Figure 9, one state."""
    case = Case("failed", {"state": "failed", "how": "twice"})
    outcome = measured(teardown.FIGURE, processes, [case])
    assert failed(outcome) == []


@pytest.mark.engine
def test_two_teardowns_at_once_leave_nothing(processes: SliceRig) -> None:
    """Figure 9, two `down` started at the same moment."""
    case = Case("active", {"state": "active", "how": "two at once"})
    outcome = measured(teardown.FIGURE, processes, [case])
    assert failed(outcome) == []


def test_the_end_of_a_run_is_told_and_nothing_is_bought(servicer: ServicerRig) -> None:
    """Figure 4, a history told by its steps: run out, cleaned up, asked for again."""
    steps = [
        {"do": "change", "key": "onRunEnd", "value": "delete"},
        {"do": "up", "rules": []},
        {"do": "advance", "seconds": 15_000},
        {"do": "up", "rules": []},
    ]
    case = Case("over", {"seed": 1, "steps": steps})
    outcome = measured(histories.FIGURE, servicer, [case])
    assert failed(outcome) == []
    assert [command.exit_code for command in servicer.commands if command.name == "up"] == [
        *[0, 1],
        *[1, 0, 0],
    ]


def test_the_accepted_end_of_a_run_is_no_failure_and_nothing_is_bought(
    servicer: ServicerRig,
) -> None:
    """Figure 4, the same with `on_run_end: accept`: each `up` after the end succeeds, also one that
    changes inputs."""
    steps = [
        {"do": "change", "key": "onRunEnd", "value": "accept"},
        {"do": "up", "rules": []},
        {"do": "advance", "seconds": 15_000},
        {"do": "up", "rules": []},
        {"do": "change", "key": "labels", "value": {"team": "word"}},
        {"do": "up", "rules": []},
    ]
    outcome = measured(histories.FIGURE, servicer, [Case("accepted", {"seed": 1, "steps": steps})])
    assert failed(outcome) == []
    ups = [command.exit_code for command in servicer.commands if command.name == "up"]
    assert ups == [0, 0, 0, *[0, 0, 0]]


def test_changing_what_a_changed_boot_does_is_no_other_slice(servicer: ServicerRig) -> None:
    """`on_boot_change` is part of how a request is recognised, but not for its own state."""
    word: list[dict[str, object]] = [{"do": "up", "rules": []}]
    for value in ("update", "replace"):
        word += [{"do": "change", "key": "onBootChange", "value": value}, {"do": "up", "rules": []}]
    case = Case("boot", {"seed": 1, "steps": word})
    outcome = measured(histories.FIGURE, servicer, [case])
    assert failed(outcome) == []
    assert {command.exit_code for command in servicer.commands} == {0}


def outcome_of(*results: Result, possible: int = 10) -> Outcome:
    counted = kills.FIGURE.counted
    return Outcome("1", "kills", possible, list(results), 1.0, counted=counted)


@pytest.mark.parametrize(("misses", "good"), [(2, True), (3, False)])
def test_a_fault_that_missed_is_tried_again(misses: int, good: bool) -> None:
    """Twice at most, and it is counted; what still misses is the rig's failure."""
    told = [Result("a", problems=[("rig", "nobody to kill")])] * misses + [Result("a", struck=1)]
    results = iter(told)
    figure = replace(kills.FIGURE, judge=lambda _rig, _case: next(results))

    result = judged(figure, None, Case("a", {}))

    assert (not result.problems) is good
    assert result.values == {"told again": 2}


def test_a_figure_that_injected_nothing_has_failed() -> None:
    """Neither no case at all nor cases without a strike pass."""
    assert not outcome_of().passed
    assert not outcome_of(Result("a")).passed
    assert outcome_of(Result("a", struck=1)).passed
    assert outcome_of(Result("a", must_strike=False)).passed


SETTING = records.Setting(5, 360, 2, {"tpuflex": "0"}, "make reliability", "abc+")
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def test_the_report_says_what_was_sampled_and_what_failed() -> None:
    """Numerator, denominator, seed, and the failed case's text."""
    bad = Result("b", struck=1, problems=[("orphan", "I1: q | is in the cloud")])
    outcome = outcome_of(Result("a", struck=1, values={"exit_s": 2.0}), bad)
    text = report.markdown({"1": records.record(outcome, SETTING, NOW)}, ["1", "2"])
    assert "| 1/2 | 2 of 10 (sampled) |" in text
    assert "2026-11-21 12:00 UTC, `abc+`, seed 5" in text
    assert "budget of the run 6 minutes" in text
    assert "Not measured yet: 2." in text
    assert "`b`: orphan: I1: q \\| is in the cloud" in text
    assert "1/2 good (1 orphan, 0 duplicate, 0 manual, 0 away, 0 cut)" in report.line(outcome)


def test_the_document_reads_the_same_when_it_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a figure's measurement changes no word of the others' rows."""
    document = tmp_path / "reliability.md"
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "DOCUMENT", document)
    monkeypatch.setattr(run, "RECORDS", document.with_suffix(".json"))
    monkeypatch.setattr(run, "REPRODUCTIONS", tmp_path / "reproductions")
    monkeypatch.setattr(run, "_versions", lambda: SETTING.versions)
    measured = outcome_of(Result("a", struck=1))
    monkeypatch.setattr(run, "measure", lambda *_, **__: measured)

    assert run.main(["--figures", "1", "--workers", "1"]) == 0
    written = document.read_text()
    assert run.main(["--render"]) == 0

    assert document.read_text() == written
    assert "0 away, 0 cut, 0 duplicate, 0 manual, 0 orphan" in written
    assert "with 1 rig on" in written


def test_a_figure_measured_again_leaves_the_others(tmp_path: Path) -> None:
    """What was measured is kept for each figure by itself, and survives being a file."""
    file = tmp_path / "reliability.json"
    first = records.record(outcome_of(Result("a", struck=1)), SETTING, NOW)
    records.save(file, {"1": first, "2": first})
    kept = records.load(file)
    kept["1"] = records.record(outcome_of(Result("a", struck=3)), SETTING, NOW)
    records.save(file, kept)
    assert records.load(file)["2"] == first
    assert records.load(file)["1"]["struck"] == 3
    assert records.load(tmp_path / "none.json") == {}


def test_a_budget_is_a_number_and_a_unit(capsys: pytest.CaptureFixture[str]) -> None:
    """What is not one is refused in words; so is a figure that is not there."""
    assert run._seconds("6m") == 360
    with pytest.raises(argparse.ArgumentTypeError, match="not a time"):
        run._seconds("soon")
    assert run.main(["--figures", "77"]) == 2
    assert "no figure 77" in capsys.readouterr().err


def test_a_failed_case_is_told_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The reproduction file holds the steps themselves."""
    facts = {"seed": 3, "steps": history_plans.plan(3)}
    file = tmp_path / "case.json"
    file.write_text(json.dumps({"figure": "4", "name": "history 3", "facts": facts}))
    assert run.main(["--again", str(file)]) == 0
    assert "history 3:" in capsys.readouterr().out
