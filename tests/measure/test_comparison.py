"""Runs beside each other: what is compared, and what is not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.goldens.golden_texts import assert_golden
from tests.measure.benchmarks import SERVER, load, point, run
from tpuflex.errors import TpuflexError, UsageError
from tpuflex.measure.benchmark_files import Benchmark
from tpuflex.measure.comparison import Comparison, compare, factor_text
from tpuflex.measure.quantities import OUTPUT, TTFT
from tpuflex.measure.report_markdown import comparison_markdown
from tpuflex.measure.run import Point, Server

LOADS = [load(each, context) for context in (128, 2048) for each in (1, 16, 64)]
ONE_CHIP = SERVER.model_copy(
    update={"accelerator": "v6e-1", "chips": 1, "usd_per_hour": Decimal("1.35")}
)


def benchmark(
    name: str, speed: float = 1.0, server: Server = SERVER, measured: int = 6
) -> Benchmark:
    """A run of some of the points."""
    loads = LOADS[:measured]
    return Benchmark(
        run(*loads, name=name, server=server), tuple(point(each, speed) for each in loads)
    )


OURS = benchmark("a")


def with_verdict(of: Benchmark, number: int, verdict: str) -> Benchmark:
    """``of`` with another verdict at one of its points."""
    points = list(of.points)
    points[number] = Point.model_validate({**points[number].model_dump(), "verdict": verdict})
    return Benchmark(of.run, tuple(points))


def test_the_tables_are_those_of_a_comparison_made_by_a_person() -> None:
    """Facts, the best of each run with factors, models on chips, and a row for each concurrency."""
    other = SERVER.model_copy(update={"model": "google/gemma-4-26b", "vllm": "0.33.0"})
    runs = [
        benchmark("31b-v6e-1", 0.4, ONE_CHIP),
        with_verdict(benchmark("31b-v6e-4", measured=5), 1, "not_a_result"),
        benchmark("26b-v6e-1", 0.9, other.model_copy(update={"accelerator": "v6e-1", "chips": 1})),
        with_verdict(benchmark("26b-v6e-4", 2.6, other), 2, "not_verified"),
    ]

    assert_golden("measure/comparison.md", comparison_markdown(compare(runs, OUTPUT)))


def values(comparison: Comparison) -> list[list[object]]:
    """The values of each run at each point, and the factor of the second."""
    found = []
    for row in comparison.to_json()["points"]:  # type: ignore[attr-defined]
        found.append([*(each["value"] is not None for each in row["runs"]), row["factors"][0]])
    return found


def test_what_is_no_result_has_no_figure_and_no_factor() -> None:
    """In neither of the runs, in no table, and the point is not among the best."""
    fast = with_verdict(benchmark("b", 2), 2, "not_a_result")
    comparison = compare([benchmark("a"), fast], OUTPUT)
    best = comparison.bests[0].points

    assert values(comparison)[2] == [True, False, None]
    assert values(comparison)[1] == [True, True, pytest.approx(2)]
    assert [each.load.context for each in best if each] == [2048, 2048]


def test_only_points_of_all_runs_are_compared() -> None:
    """What one of them lacks is counted, and shown nowhere."""
    comparison = compare([benchmark("a"), benchmark("b", measured=4)], TTFT)

    assert len(comparison.points) == 4
    assert comparison.left_out == 2
    assert compare([benchmark("a"), benchmark("b")], TTFT, 2048).points[0][0].load.context == 2048


def test_the_header_says_in_what_the_runs_differ() -> None:
    """Version, chips and price among it; what is not known of a run is no difference."""
    newer = ONE_CHIP.model_copy(update={"vllm": "0.33.0"})
    comparison = compare([benchmark("a"), benchmark("b", server=newer)], OUTPUT)

    unknown = compare([benchmark("a"), benchmark("b", server=Server(model=SERVER.model))], OUTPUT)

    assert comparison.different == ("chips", "server", "price")
    assert unknown.different == ()
    assert compare([benchmark("a"), benchmark("a")], OUTPUT).names == ("a (1)", "a (2)")


def test_where_the_load_came_from_is_always_said() -> None:
    """A network is in the figures of one that came by it; other options are a difference, too."""

    def driven(url: str, *options: str) -> Benchmark:
        words = ("vllm", "bench", "serve", *options, "--base-url", url)
        return Benchmark(OURS.run.model_copy(update={"command": words}), OURS.points)

    here = driven("http://127.0.0.1:8000", "--temperature", "0")
    away = driven("https://user@example.com:8443/v1", "--temperature=1", "--burstiness")
    other = Benchmark(OURS.run.model_copy(update={"command": ()}), OURS.points)
    facts = dict(compare([here, away, other], OUTPUT).facts)

    assert facts["load from"] == ("beside the server", "elsewhere, to example.com", "")
    assert facts["load options"] == ("--temperature 0", "--temperature 1 --burstiness", "")
    assert dict(compare([here, here], OUTPUT).facts)["load from"] == ("beside the server",) * 2
    assert "load options" not in dict(compare([here, here], OUTPUT).facts)


def test_the_best_points_have_no_mark_where_others_have_none() -> None:
    """Those of all runs are of the same loads; where all are marked, the marks show."""
    marked = [each.model_copy(update={"flags": ("too fast",)}) for each in OURS.points]
    one = compare([OURS, Benchmark(OURS.run, (*marked[:3], *OURS.points[3:]))], OUTPUT)
    all_ = compare([OURS, Benchmark(OURS.run, tuple(marked))], OUTPUT)

    assert [each.load.context for each in one.bests[0].points if each] == [2048, 2048]
    assert " * at " not in list(one.tables())[1].rows[0][2]
    assert " * at " in list(all_.tables())[1].rows[0][2]


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (0.79, "0.79x"),
        (0.8, "0.80x ~"),
        (1.0, "1.00x ~"),
        (1.25, "1.25x ~"),
        (1.26, "1.26x"),
        (150.0, "150x"),
        (None, "-"),
    ],
)
def test_a_factor_as_small_as_chance_is_marked(factor: float | None, text: str) -> None:
    """Points are measured once: what two runs of one server differ by proves nothing."""
    assert factor_text(factor) == text


def test_what_cannot_be_compared_is_refused() -> None:
    """One run alone, and runs that have no load in common, with what they have."""
    other = Benchmark(run(load(3, 99), name="b"), (point(load(3, 99)),))

    with pytest.raises(UsageError, match="two files or more"):
        compare([benchmark("a")], OUTPUT)
    with pytest.raises(TpuflexError, match=r"b has 3x99 \(generates 128\)"):
        compare([benchmark("a"), other], OUTPUT)
