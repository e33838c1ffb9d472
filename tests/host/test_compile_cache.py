"""The compile cache that a host reports: written by whoever is root there."""

from __future__ import annotations

import json

import pytest

from tpuflex.host.report import CompileCacheReport, compile_cache_report, host_report

WRITTEN = {"from": "bucket", "files": 412, "bytes": 1_200_000_000, "milliseconds": 3400}


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (WRITTEN, "412 programs (1.2 GB) from the bucket in 3.4 s"),
        ({**WRITTEN, "compiled": 0}, "412 programs (1.2 GB) from the bucket in 3.4 s; 0 compiled"),
        (
            {"compiled": 7, "saved_bytes": 5_000_000, "saved_milliseconds": 800},
            "7 compiled; 5.0 MB saved in 0.8 s",
        ),
        ({"compiled": 7, "problem": "it is too large"}, "7 compiled\nit is too large"),
        ({**WRITTEN, "from": "host"}, "412 programs (1.2 GB) from the host's disk in 3.4 s"),
        ({"problem": "no room"}, "none yet\nno room"),
    ],
)
def test_for_people(written: dict[str, object], shown: str) -> None:
    """What was restored, compiled and saved, with bytes and seconds."""
    assert str(compile_cache_report(json.dumps(written))) == shown


def test_of_the_host() -> None:
    """The host's report has it, and the document of `status --json` under its own names."""
    report = host_report(
        {"report": json.dumps({"compile_cache": json.dumps({**WRITTEN, "compiled": 3})})}
    )
    assert report is not None
    assert report.to_json()["compile_cache"] == {
        "from": "bucket",
        "files": 412,
        "bytes": 1_200_000_000,
        "seconds": 3.4,
        "compiled": 3,
        "saved_bytes": 0,
        "saved_seconds": 0.0,
        "problem": "",
    }


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "null", '"x"', "[1]"])
def test_what_cannot_be_read(text: str) -> None:
    """There is no report then: nothing is guessed, and nothing fails."""
    assert compile_cache_report(text) is None


def test_values_of_another_kind() -> None:
    """What is no number counts as none, and text is made printable."""
    text = (
        '{"from": 3, "files": true, "bytes": -1, "milliseconds": 1e400, "problem": "\\u001b]0;x"}'
    )
    report = compile_cache_report(text)
    assert report is not None
    assert "\x1b" not in report.problem
    assert report == CompileCacheReport(problem=report.problem)
