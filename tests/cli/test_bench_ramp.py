"""`tpuflex bench ramp`: what it refuses, and how its steps and gates are shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.cli.test_bench_run import FOUND, point
from tests.cli.typing import Captured, TypeIn
from tests.goldens.golden_texts import assert_golden
from tpuflex.cli.bench.run import show_ramp
from tpuflex.measure.gates import parse_gate
from tpuflex.measure.ramp import Ramp
from tpuflex.measure.run_file import create
from tpuflex.terminal.output import Output

STEPS = replace(
    FOUND,
    path=Path("bench/prod-20261129-031500.jsonl"),
    points=(
        point(1, 2048, 0.08),
        point(16, 2048, 0.4),
        point(32, 2048, 0.9, lag=1.04),
        point(64, 2048, 2.9),
        point(256, 2048, 0.9),
    ),
)
GATES = ("ttft_p95<1.5s@64", "itl_p95<50ms", "e2e_max<10s@16", "ttft_p50<1s@256")


def test_steps_and_gates_are_shown(capsys: Captured) -> None:
    """At 80 columns: the steps as of a run, then each gate with its figure, the peak, and the
    highest step that keeps all gates."""
    found = Ramp(STEPS, tuple(map(parse_gate, GATES)))
    show_ramp(Output(json=False, verbose=False, environ={"COLUMNS": "80"}), found)

    shown = capsys.readouterr().out
    assert_golden("bench/ramp.txt", shown)
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--gate", "ttft_p95<1.5"), "its unit is missing"),
        (("--gate", "ttft_p95<1.5s@3"), "the ramp has no step of 3, only 1, 2, 4, 8"),
        (("--concurrency", "1,2", "--gate", "itl_p50<1s@4"), "no step of 4, only 1, 2"),
        (("--concurrency", "0"), "Between 1 and 1,000,000"),
        (("--context", "4"), "A prompt has 8 tokens or more"),
        (("--resume", "x.jsonl", "--context", "64"), "--resume takes points and file as they"),
    ],
)
def test_options_that_contradict_each_other_are_wrong_usage(
    type_in: TypeIn, words: tuple[str, ...], says: str
) -> None:
    """Before any cloud is asked."""
    typed = type_in("bench", "ramp", *words)

    assert typed.code == 2
    assert says in " ".join(typed.err.split())


def test_gates_of_a_resumed_ramp_are_of_its_steps(type_in: TypeIn, project: Path) -> None:
    """They are held against the steps that the file has."""
    with create(project / "ramp.jsonl", STEPS.run):
        pass
    typed = type_in(
        "bench", "ramp", "--resume", str(project / "ramp.jsonl"), "--gate", "ttft_p95<1s@128"
    )

    assert typed.code == 2
    assert "the ramp has no step of 128" in " ".join(typed.err.split())
