"""`tpuflex bench run`: what it refuses, and how its points are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from tests.cli.typing import Captured, TypeIn
from tests.goldens.golden_texts import assert_golden
from tests.measure.drives import served
from tpuflex.catalog.catalog import builtin
from tpuflex.cli.bench.run import show_benchmark
from tpuflex.measure.bench import Benchmark
from tpuflex.measure.grid import why_not_feasible
from tpuflex.measure.judgement import Chips, Evidence, judged
from tpuflex.measure.metrics import Counters
from tpuflex.measure.run import Load, Point, Run, Server
from tpuflex.terminal.output import Output

CATALOG = builtin()
CHIPS = Chips(CATALOG.model("google/gemma-4-31B-it"), CATALOG.accelerator("v6e-4"), Decimal("5.40"))
SERVER = Server(
    model="google/gemma-4-31B-it",
    vllm="0.32.0",
    accelerator="v6e-4",
    kv_tokens=180_000,
    block_size=32,
    max_model_len=16_384,
)
AT = datetime(2026, 11, 29, 3, 15, tzinfo=UTC)


def point(concurrency: int, context: int, ttft: float, *, shared: int = 0, lag: float = 0) -> Point:
    """A point whose server takes ``ttft`` seconds to a first token."""
    requests = max(32, 8 * concurrency)
    load = Load(
        concurrency=concurrency, context=context, output=64, requests=requests, shared=shared
    )
    if why := why_not_feasible(load, SERVER):
        return Point(load=load, verdict="not_feasible", reasons=(why,))
    counted = Counters(
        prompt_tokens=float(requests * context),
        generation_tokens=float(requests * 64),
        cached_tokens=float(requests * shared),
    )
    result = served(load, ttft=ttft, gap=0.03)
    return judged(load, Evidence(result, counted, False, lag, 0.1), CHIPS, AT)


POINTS = (
    point(1, 128, 0.05),
    point(64, 128, 0.4),
    point(64, 2048, 2.9, lag=1.04),
    point(256, 2048, 0.9),
    point(1, 16_384, 0.4),
    point(64, 128, 0.35, shared=96),
)
FOUND = Benchmark(
    Path("bench/prod-20261129-031500.jsonl"),
    Run(id="r", name="r", started=AT, server=SERVER, loads=tuple(each.load for each in POINTS)),
    POINTS,
)


def test_points_are_shown_as_a_table(capsys: Captured) -> None:
    """At 80 columns; below it stands why a point is no result, and what is flagged."""
    show_benchmark(Output(json=False, verbose=False, environ={"COLUMNS": "80"}), FOUND)

    shown = capsys.readouterr().out
    assert_golden("bench/run.txt", shown)
    assert max(map(len, shown.splitlines())) <= 80


def test_what_is_not_known_has_no_column(capsys: Captured) -> None:
    """Without chips there is neither a ceiling nor a price."""
    bare = tuple(
        each.model_copy(update={"ceilings": type(each.ceilings)(), "usd_per_million": None})
        for each in POINTS
    )
    show_benchmark(Output(json=False, verbose=False, environ={}), replace(FOUND, points=bare))

    header = capsys.readouterr().out.splitlines()[1]
    assert "OF MAX" not in header
    assert "$/M" not in header


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--points", "8"), "'8' is no point"),
        (("--points", "8x128", "--context", "8"), "--points stands in place of"),
        (("--concurrency", "0"), "Between 1 and 1,000,000"),
        (("--context", "4"), "A prompt has 8 tokens or more"),
        (("--resume", "x.jsonl", "--points", "8x128"), "--resume takes points and file as they"),
        (("--resume", "x.jsonl", "--name", "n"), "--resume takes points and file as they"),
        (("--model", "m"), "--model and --tokenizer go with --here"),
        (("--output", "0"), "0 is not in the range"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    type_in: TypeIn, words: tuple[str, ...], says: str
) -> None:
    """Before any cloud is asked."""
    typed = type_in("bench", "run", *words)

    assert typed.code == 2
    assert says in " ".join(typed.err.split())


def test_no_server_at_a_url_is_an_error(type_in: TypeIn) -> None:
    """Port 9 (discard) has none."""
    typed = type_in("bench", "run", "--here", "http://127.0.0.1:9", "--yes")

    assert typed.code == 7
    assert "The server does not answer" in " ".join(typed.err.split())
