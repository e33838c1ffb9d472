"""What a server does wrong is counted by its kind, and is in no latency.

`vllm bench serve` of vLLM 0.32 was put on a :func:`~tests.measure.faulty_server.faulty_server`, and
what it measured is in recorded/faults.json; tests/acceptance/vllm does it again.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.measure.faulty_server import Fault
from tpuflex.measure.judgement import Chips, Evidence, judged
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.run import Load, Point
from tpuflex.measure.vllm_result import VllmResult

RECORDED = json.loads((Path(__file__).parent / "recorded" / "faults.json").read_text())
#: What was asked for: every sixteenth of the requests was answered wrongly.
LOAD = Load(concurrency=4, context=32, output=16, requests=32, seed=7)
#: What the server counts as the tokens of such a prompt: its words.
WORDS = 20
KINDS: dict[Fault, str] = {
    "stall": "stalled",
    "silent": "no tokens",
    "truncated": "broke off",
    "error": "cut short",
    "busy": "HTTP 429",
}


def recorded(fault: Fault) -> Point:
    """What the judgement makes of the recorded load."""
    drive, at = RECORDED[fault], datetime.now(UTC)
    before = EngineMetrics.parse(drive["before"], at)
    counted = EngineMetrics.parse(drive["after"], at).since(before)
    result = VllmResult.model_validate(drive["result"])
    load = LOAD.model_copy(update={"context": WORDS})
    return judged(load, Evidence(result, counted, False, drive["lag"], drive["busy"]), Chips())


@pytest.mark.parametrize(("fault", "kind"), KINDS.items())
def test_each_fault_has_a_kind_of_its_own(fault: Fault, kind: str) -> None:
    """The two requests that failed are counted as what they are, and their times are not among
    those of the thirty that were answered."""
    point = recorded(fault)
    measured = point.measured

    assert measured is not None
    assert (point.verdict, measured.completed, measured.failures) == ("not_a_result", 30, {kind: 2})
    assert f"2 of 32 requests were not answered with their 16 tokens: 2 {kind}" in point.reasons
    assert measured.latency is not None
    assert measured.latency.max < 0.25


def test_without_a_fault_nothing_has_failed() -> None:
    """The same load without a fault has no failures, and agrees with itself."""
    point = recorded("none")

    assert point.measured is not None
    assert (point.verdict, point.reasons, point.measured.failures) == ("result", (), {})
