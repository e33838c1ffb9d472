"""Benchmarks of other tools: recognised by what is in them, and believed no further."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llmd_benchmark_report
import pytest
import yaml

from tests.measure.benchmarks import NOON, load, point, run
from tpuflex.errors import NotFoundError, TpuflexError
from tpuflex.measure.benchmark_files import Benchmark, read_benchmark
from tpuflex.measure.benchmark_report import report_of_point
from tpuflex.measure.report_files import export
from tpuflex.measure.run import Load, Measured, Point, Quantiles, Requests
from tpuflex.measure.run_file import create

LOADS = [load(1, 128), load(8, 128), load(8, 2048, shared=1024)]
OURS = Benchmark(run(*LOADS), tuple(map(point, LOADS)))
#: Eight requests, two at a time, one second each: as vllm bench serve 0.32 saves them.
VLLM: dict[str, Any] = {
    "date": "20261128-120000",
    "backend": "openai-chat",
    "model_id": "google/gemma-4-31b-it",
    "num_prompts": 8,
    "max_concurrency": 2,
    "duration": 4.0,
    "completed": 8,
    "failed": 0,
    "total_input_tokens": 8 * 94,
    "total_output_tokens": 8 * 16,
    "request_throughput": 2.0,
    "output_throughput": 32.0,
    "input_lens": [94] * 8,
    "output_lens": [16] * 8,
    "ttfts": [0.25] * 8,
    "itls": [[0.05] * 15] * 8,
    "latencies": [1.0] * 8,
    "start_times": [100.0 + number // 2 for number in range(8)],
    "errors": [""] * 8,
}

#: The same as `bench run` has it.
DETAILED = Point(
    load=Load(concurrency=2, context=100, output=20, requests=8),
    verdict="result",
    measured=Measured(
        seconds=4.0,
        completed=8,
        requests_per_second=2.0,
        output_per_second=32.0,
        prompt_per_second=188.0,
        ttft=Quantiles.of([0.25] * 8),
        tpot=Quantiles.of([0.05] * 8),
        latency=Quantiles.of([1.0] * 8),
        little=1.0,
        requests=Requests(
            start=tuple(float(number // 2) for number in range(8)),
            ttft=(0.25,) * 8,
            latency=(1.0,) * 8,
            prompt_tokens=(94,) * 8,
            output_tokens=(16,) * 8,
            error=("",) * 8,
        ),
    ),
    at=NOON,
)


def written(directory: Path, document: object, name: str = "one.json") -> Path:
    """``document`` in a file."""
    file = directory / name
    file.write_text(json.dumps(document), "utf-8")
    return file


def test_a_result_of_vllm_is_a_point_that_nothing_has_verified(tmp_path: Path) -> None:
    """Its figures are taken as they are, and the reason says what is not known."""
    found = read_benchmark(written(tmp_path, VLLM))
    (only,) = found.points

    assert (only.load.concurrency, only.load.context, only.load.output) == (2, 94, 16)
    assert only.verdict == "not_verified"
    assert "does not say what the server has counted" in only.reasons[0]
    assert only.measured is not None
    assert only.measured.output_per_second == 32
    assert only.measured.ttft is not None
    assert only.measured.ttft.p95 == 0.25
    assert only.measured.tpot is not None
    assert only.measured.tpot.p95 == pytest.approx(0.05)
    assert only.measured.little == pytest.approx(1)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"failed": 2, "completed": 6}, "2 of 8 requests failed"),
        ({"latencies": [0.5] * 8}, "throughput x latency is 1 requests in flight"),
    ],
)
def test_a_result_of_vllm_that_contradicts_itself_is_none(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    """What can be seen without the server's counters counts against it."""
    (only,) = read_benchmark(written(tmp_path, VLLM | change)).points

    assert only.verdict == "not_a_result"
    assert only.reasons[0].startswith(reason)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"output_lens": [16] * 7 + [8]}, "answers have 8 to 16 tokens"),
        ({"ttfts": [], "itls": [], "latencies": []}, "it was saved without --save-detailed"),
    ],
)
def test_what_a_result_of_vllm_leaves_open_is_said(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    """An answer that was cut short counts as answered there, and latencies may be missing."""
    (only,) = read_benchmark(written(tmp_path, VLLM | change)).points

    assert only.verdict == "not_verified"
    assert only.reasons[1].startswith(reason)


def test_an_export_is_what_the_format_has(tmp_path: Path) -> None:
    """llm-d's own package, which refuses fields that it does not know, reads each report."""
    exported = export(OURS, tmp_path)

    assert exported.files == (
        "benchmark_report_v0.2.1_c1_i128_o128.yaml",
        "benchmark_report_v0.2.1_c8_i128_o128.yaml",
        "benchmark_report_v0.2.1_c8_i2048_o128_shared1024.yaml",
    )
    for name in exported.files:
        read = llmd_benchmark_report.import_benchmark_report(str(tmp_path / name))
        assert read.model_dump()["version"] == "0.2.1"


def test_an_export_has_what_was_measured_not_what_was_asked_for(tmp_path: Path) -> None:
    """Lengths and rates are of the answered requests; it ends so long after its beginning."""
    report = report_of_point(OURS.run, DETAILED)
    aggregate = report["results"]["request_performance"]["aggregate"]

    assert aggregate["requests"]["input_length"]["mean"] == 94
    assert aggregate["requests"]["output_length"]["mean"] == 16
    assert aggregate["throughput"]["input_token_rate"]["mean"] == pytest.approx(2 * 94)
    assert report["run"]["time"]["start"] == "2026-11-28T12:00:00+00:00"
    assert aggregate["latency"]["time_per_output_token"]["p95"] == 0.05
    assert report["run"]["time"]["end"] == "2026-11-28T12:00:04+00:00"
    export(Benchmark(OURS.run, (DETAILED,)), tmp_path)
    (file,) = tmp_path.iterdir()
    llmd_benchmark_report.import_benchmark_report(str(file))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({}, ""),
        ({"output_per_second": 320.0}, "output tokens/s is 320, and its requests give 32"),
        ({"requests_per_second": 2.001}, ""),
        ({"failures": {"cut short": 2}}, "it is a result, and requests failed"),
        ({"completed": 6}, "completed is 6, and its requests give 8"),
        ({"little": 0.1}, "little is 0.1, and its requests give 1"),
        ({"ttft": Quantiles.of([0.1] * 8)}, "time to first token mean is 0.1"),
        ({"latency": None}, "latency mean is not known, and its requests give 1"),
    ],
)
def test_a_run_whose_figures_are_not_those_of_its_requests_is_no_result(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    """Somebody has written in the file; what differs by rounding has not."""
    assert DETAILED.measured is not None
    edited = DETAILED.model_copy(update={"measured": DETAILED.measured.model_copy(update=change)})
    with create(tmp_path / "a.jsonl", OURS.run) as file:
        file.append(edited)

    (found,) = read_benchmark(tmp_path / "a.jsonl").points

    assert found.verdict == ("not_a_result" if reason else "result")
    assert "".join(found.reasons).startswith("the file contradicts itself: " if reason else "")
    assert reason in "".join(found.reasons)


def test_a_report_of_llm_d_has_the_figures_but_proves_none(tmp_path: Path) -> None:
    """A directory of reports is one run; even our own are not verified when they come back."""
    export(OURS, tmp_path)
    found = read_benchmark(tmp_path)

    assert {each.load.key for each in found.points} == {each.key for each in LOADS}
    assert {each.verdict for each in found.points} == {"not_verified"}
    assert found.run.server.model == OURS.run.server.model
    assert found.run.server.chips == 4
    for point_ in found.points:
        mine = {each.load.key: each for each in OURS.points}[point_.load.key].measured
        assert point_.measured is not None
        assert mine is not None
        assert point_.measured.output_per_second == mine.output_per_second
        assert point_.measured.ttft == mine.ttft
        assert point_.measured.inter_token == mine.inter_token


def test_milliseconds_are_read_as_such(tmp_path: Path) -> None:
    """A report says its units, and others write milliseconds."""
    report = report_of_point(OURS.run, OURS.points[0])
    latency = report["results"]["request_performance"]["aggregate"]["latency"]
    seconds = latency["time_to_first_token"]["p95"]
    latency["time_to_first_token"] = {
        name: value * 1000 if isinstance(value, float) else "ms"
        for name, value in latency["time_to_first_token"].items()
    }
    (only,) = read_benchmark(written(tmp_path, report)).points

    assert only.measured is not None
    assert only.measured.ttft is not None
    assert only.measured.ttft.p95 == pytest.approx(seconds)


def test_points_that_are_no_results_are_not_exported(tmp_path: Path) -> None:
    """There is no place in a report for why they are none."""
    bad = OURS.points[0].model_copy(update={"verdict": "not_a_result"})
    impossible = point(load(2048, 8192))
    exported = export(Benchmark(OURS.run, (bad, OURS.points[1], impossible)), tmp_path)

    assert len(exported.files) == 1
    assert [each.verdict for each in exported.left_out] == ["not_a_result", "not_feasible"]
    with pytest.raises(TpuflexError, match="no point with figures"):
        export(Benchmark(OURS.run, (bad,)), tmp_path)


def rated() -> dict[str, Any]:
    """A report on a rate of requests."""
    report = report_of_point(OURS.run, OURS.points[0])
    report["scenario"]["load"]["standardized"]["concurrency"] = float("inf")
    return report


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "not a benchmark that can be read"),
        ("{}", "not a benchmark that can be read"),
        ("[" * 100_000, "nested too deeply"),
        ("a: &a [x]\nb: *c\n", "not a benchmark that can be read"),
        (
            "version: 0.2.1\nresults: {}\nrun: {uid: x}\n",
            "cannot be used: scenario: Field required",
        ),
        (json.dumps(VLLM | {"max_concurrency": None}), "measured at a rate of requests"),
        (json.dumps(VLLM | {"completed": 0}), "no request was answered"),
        (json.dumps(VLLM | {"duration": -1}), "cannot be used: duration"),
        (yaml.safe_dump(rated()), "measured at a rate of requests"),
        ('{"format": 2, "server": {}}\n', "line 1 cannot be used"),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path: Path, text: str, says: str) -> None:
    """With what is wrong, and without a traceback."""
    file = tmp_path / "one.json"
    file.write_text(text, "utf-8")

    with pytest.raises(TpuflexError, match=says):
        read_benchmark(file)


def test_a_directory_has_to_be_one_run(tmp_path: Path) -> None:
    """Files of two models, or with the same load, are not joined."""
    written(tmp_path, VLLM)
    written(tmp_path, VLLM | {"max_concurrency": 4}, "two.json")
    assert len(read_benchmark(tmp_path).points) == 2

    written(tmp_path, VLLM, "three.json")
    with pytest.raises(TpuflexError, match=r"one.json and three.json have the same load"):
        read_benchmark(tmp_path)
    written(tmp_path, VLLM | {"model_id": "other", "max_concurrency": 8}, "three.json")
    with pytest.raises(TpuflexError, match="do not name the same server"):
        read_benchmark(tmp_path)


def test_a_file_that_is_not_there_is_not_found(tmp_path: Path) -> None:
    """The same for a directory without one."""
    for missing in (tmp_path / "none.jsonl", tmp_path):
        with pytest.raises(NotFoundError):
            read_benchmark(missing)
