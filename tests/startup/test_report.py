"""The report in guest attributes: one value, never empty, seldom, and the last word arrives."""

from __future__ import annotations

import json

import pytest

from tests.startup.host import StartupHost, StartupRun
from tpuflex.host.report import PHASES, host_report

Booted = tuple[StartupHost, StartupRun]


def test_no_empty_value_is_written(booted: Booted) -> None:
    """The report is an object of texts that are not empty: nothing documents empty values."""
    host, _ = booted
    assert host.cloud.written
    for text in host.cloud.written:
        report = json.loads(text)
        assert report
        assert all(isinstance(value, str) and value for value in report.values())


def test_the_report_is_read_as_written(booted: Booted) -> None:
    """`up` and `status` read what the script writes, and not what an older one left beside it."""
    host, _ = booted
    report = host_report({"report": host.cloud.written[-1], "error": "of an earlier boot"})
    assert report is not None
    assert report.ready
    assert report.vllm_version == "0.32.0"
    assert report.kv_cache is not None
    # There is no warm-up on this host.
    expected = [phase for phase in PHASES if phase not in ("fetch", "warmup")]
    assert list(report.timeline) == expected
    assert report.ended is not None
    for part in ("image", "weights"):
        assert report.timeline[part] <= report.ended[part] <= report.timeline["container"]


@pytest.mark.parametrize("text", ["", "x", "[]", '{"phase": 1}', "[" * 100_000])
def test_a_report_that_cannot_be_read_says_nothing(text: str) -> None:
    """Whoever is root on the host writes it."""
    report = host_report({"report": text, "phase": "READY"})
    assert report is not None
    assert not report.ready


def test_ten_queries_a_minute_are_enough(host: StartupHost) -> None:
    """Google wants no more of a host; a boot of a few seconds keeps to it, and READY arrives."""
    run = host.run(TPUFLEX_REPORTS="10")
    assert run.status == 0, run.output
    read = host.cloud.asked("guest-attributes")
    assert len(host.cloud.written) + read <= 10
    assert host.cloud.last("phase") == "READY"


@pytest.mark.parametrize("character", ["x", "\\", "\U0010ffff"])
def test_no_text_keeps_a_report_from_being_written(host: StartupHost, character: str) -> None:
    """A value of guest attributes is 256 KiB at most; a text that is longer than any should be is
    cut, and the phase arrives."""
    (host.directory / "long").write_text(character * 200_000)
    keys = "detail error compile_cache kv_cache isolation vllm_version weights timeline"
    text = host.functions(
        f"for key in {keys}; do REPORT[$key]=$(<long); done\nREPORT[phase]=READY\nreport_text"
    )
    assert len(text.encode()) <= 256 * 2**10
    assert json.loads(text)["phase"] == "READY"
    assert character in json.loads(text)["detail"]


@pytest.mark.parametrize("last", ['"phase": "READY"', '"error": "image'])
def test_the_last_word_is_written_until_it_can_be_read(host: StartupHost, last: str) -> None:
    """A report that Google drops without a word is written again when it is READY or an error."""
    if "error" in last:
        host.mark("registry-down")
    host.cloud.lost = [last, last]
    host.run()
    assert host.cloud.lost == []
    assert last in host.cloud.written[-1]
    # Three looks, the last of which found it.
    assert host.cloud.asked("guest-attributes") == 3


def test_a_policy_that_forbids_reports_does_not_end_the_boot(host: StartupHost) -> None:
    """Where guest attributes are refused, the host serves all the same, and does not insist."""
    host.cloud.answers["guest-attributes"] = [403] * 1000
    run = host.run()
    assert run.status == 0, run.output
    assert "the guest attribute could not be written (HTTP 403)" in run.output
    assert host.cloud.asked("guest-attributes") == 1
