"""A ramp rises step by step until a gate fails, and says how far the server goes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.measure.drives import ScriptedGenerator, served
from tests.measure.test_bench import SUBJECT, run
from tpuflex.errors import GateError, ImplausibleError, UsageError
from tpuflex.measure.bench import Benchmark
from tpuflex.measure.gates import parse_gate
from tpuflex.measure.load import Drive
from tpuflex.measure.ramp import Ramp, ramp, ramp_grid
from tpuflex.measure.run import Load
from tpuflex.measure.run_file import read_run

#: Four steps that fit, and one that the KV cache of 250 blocks does not hold.
GRID = ramp_grid("4,1,2,8,64", 128, 8, None)


class SlowingGenerator(ScriptedGenerator):
    """A generator whose server takes 50 ms to the first token for each request in flight."""

    def drive(self, load: Load) -> Drive:
        """The next drive."""
        found = super().drive(load)
        failed = any(found.result.errors)
        slower = found.result if failed else served(load, ttft=0.05 * load.concurrency)
        return Drive(slower, found.before, found.after, found.lag, found.busy)


def climb(
    path: Path,
    *gates: str,
    generator: ScriptedGenerator | None = None,
    to_end: bool = False,
    resumed: bool = False,
    said: list[str] | None = None,
) -> Ramp:
    """A ramp of :data:`GRID`, or what a file lacks of it."""
    measure = partial(run, path, generator or SlowingGenerator(), grid=None if resumed else GRID)
    report = (said if said is not None else []).append
    return ramp(
        measure, [parse_gate(gate) for gate in gates], lambda each: report(str(each)), to_end=to_end
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a ramp is kept."""
    return tmp_path / "ramp.jsonl"


def users(benchmark: Benchmark, verdict: str = "result") -> list[int]:
    return [each.load.concurrency for each in benchmark.points if each.verdict == verdict]


def test_gates_that_hold(path: Path) -> None:
    """All steps that fit are measured in their order; the peak is the last of them, and all gates
    are kept there."""
    generator = SlowingGenerator()
    found = climb(path, "ttft_p95<0.5s@8", "output_tokens_per_s>1@1", generator=generator)

    assert [load.concurrency for load in generator.driven[1:]] == [1, 2, 4, 8]
    assert users(found.benchmark, "not_feasible") == [64]
    assert [each.verdict for each in found.decisions] == ["holds", "holds"]
    assert found.decisions[0].text == "holds: 400 ms with 8 users"
    assert found.peak is not None
    assert found.highest is not None
    assert (found.peak.load.concurrency, found.highest.load.concurrency) == (8, 8)
    found.require_kept()
    document = found.to_json()
    assert document["gates"] == [
        {"gate": "ttft_p95<0.5s@8", "verdict": "holds", "concurrency": 8, "value": 0.4},
        {
            "gate": "output_tokens_per_s>1@1",
            "verdict": "holds",
            "concurrency": 1,
            "value": pytest.approx(8 / 0.4),
        },
    ]


def test_the_first_gate_that_fails_ends_it(path: Path) -> None:
    """No step is measured after it; the steps before keep the gates, and the exit code says that
    one failed, with its figure."""
    said: list[str] = []
    found = climb(path, "ttft_p95<150ms", "e2e_max<60s@8", said=said)

    assert users(found.benchmark) == [1, 2, 4]
    assert [each.verdict for each in found.decisions] == ["fails", "undecided"]
    assert found.decisions[1].text == "undecided: its step was not reached"
    assert found.highest is not None
    assert found.highest.load.concurrency == 2
    assert said == ["ttft_p95<150ms fails: 200 ms with 4 users"]
    with pytest.raises(GateError, match=r"1 of 2 gates failed: ttft_p95<150ms fails: 200 ms"):
        found.require_kept()


def test_it_goes_on_to_the_end_where_that_is_asked(path: Path) -> None:
    """With all steps measured the first that failed is still the one that decides."""
    found = climb(path, "ttft_p95<150ms", to_end=True)

    assert users(found.benchmark) == [1, 2, 4, 8]
    assert found.decisions[0].text == "fails: 200 ms with 4 users"


def test_a_gate_of_one_step_says_nothing_of_the_others(path: Path) -> None:
    """A limit that a later step breaks does not fail at an earlier one."""
    found = climb(path, "ttft_p95<150ms@2")

    assert users(found.benchmark) == [1, 2, 4, 8]
    found.require_kept()
    assert found.highest is not None
    assert found.highest.load.concurrency == 2


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        ("ttft_p95<1s@4", "undecided: 4 users: not a result"),
        ("ttft_p95<1s", "undecided: 4 users: not a result"),
        ("ttft_p95<1s@64", "undecided: 64 users: not feasible"),
        ("prompt_tokens_per_s>1", "undecided: 4 users: not a result"),
    ],
)
def test_a_step_that_is_no_result_decides_nothing(path: Path, gate: str, text: str) -> None:
    """Such a gate neither holds nor fails, the ramp goes on, and the exit code is another one."""
    found = climb(path, gate, generator=SlowingGenerator({3: "Too Many Requests"}))

    assert users(found.benchmark) == [1, 2, 8]
    assert found.decisions[0].verdict == "undecided"
    assert found.decisions[0].text == text
    with pytest.raises(ImplausibleError, match="1 of 1 gates are undecided"):
        found.require_kept()


def test_a_gate_of_every_step_is_of_those_that_do_not_fit_too(path: Path) -> None:
    """It is undecided, although all steps that were measured keep it."""
    found = climb(path, "ttft_p95<1s")

    assert users(found.benchmark) == [1, 2, 4, 8]
    assert found.decisions[0].text == "undecided: 64 users: not feasible"


def test_other_steps_may_be_no_results(path: Path) -> None:
    """Where all gates are decided, a step that no gate is of does not matter; without gates it
    does."""
    wrong = SlowingGenerator({3: "Too Many Requests"})
    climb(path, "ttft_p95<1s@8", generator=wrong).require_kept()

    other = path.with_name("other.jsonl")
    without = climb(other, generator=SlowingGenerator({3: "Too Many Requests"}))
    with pytest.raises(ImplausibleError, match="1 of 4 points are not results"):
        without.require_kept()


def test_a_ramp_that_was_killed_goes_on(path: Path) -> None:
    """The steps that are missing are measured, and those that are there decide, too: after a
    failure nothing more is."""
    killed = SlowingGenerator({3: KeyboardInterrupt()})
    with pytest.raises(BaseException, match="Stopped"):
        climb(path, "ttft_p95<1s@8", generator=killed)
    generator = SlowingGenerator()
    found = climb(path, "ttft_p95<1s@8", generator=generator, resumed=True)

    assert [load.concurrency for load in generator.driven[1:]] == [4, 8]
    assert users(found.benchmark) == [1, 2, 4, 8]
    found.require_kept()

    ended = path.with_name("ended.jsonl")
    climb(ended, "ttft_p95<150ms")
    assert len(read_run(ended).points) < len(GRID.points)
    idle = SlowingGenerator()
    again = climb(ended, "ttft_p95<150ms", generator=idle, resumed=True)
    assert (idle.driven, again.decisions[0].verdict) == ([], "fails")


def test_steps_of_a_ramp() -> None:
    """They rise, and each is there once; a prompt has room for the tokenizer's own tokens."""
    assert ramp_grid(None, None, None, None).points == tuple((2**each, 1024) for each in range(9))
    assert ramp_grid("8,1,8", 64, None, None).points == ((1, 64), (8, 64))
    assert SUBJECT.server.block_size is not None
    with pytest.raises(UsageError, match="8 tokens or more"):
        ramp_grid(None, 7, None, None)
