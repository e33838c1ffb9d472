"""The KV cache that a host reports: written by whoever is root there."""

from __future__ import annotations

import json

import pytest

from tpuflex.host.report import KvCacheReport, host_report, kv_cache_report

WRITTEN = {"block_size": 128, "num_blocks": 2109, "cache_dtype": "auto", "tokens": 269952}


def test_of_the_host() -> None:
    """The host's report has it, and the server's version."""
    fields = {"kv_cache": json.dumps(WRITTEN), "vllm_version": "0.32.0"}
    report = host_report({"report": json.dumps(fields)})

    assert report is not None
    assert report.to_json()["kv_cache"] == WRITTEN
    assert report.vllm_version == "0.32.0"


def test_without_tokens() -> None:
    """The tokens follow from the blocks."""
    text = json.dumps({key: value for key, value in WRITTEN.items() if key != "tokens"})

    assert kv_cache_report(text) == KvCacheReport(128, 2109, "auto", 269952)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[" * 100_000,
        "null",
        '"128"',
        "[128, 2109]",
        '{"block_size": 128}',
        '{"block_size": "128", "num_blocks": 2109}',
        '{"block_size": true, "num_blocks": 2109}',
        '{"block_size": 128, "num_blocks": -1}',
        '{"block_size": 128, "num_blocks": 1e400}',
        '{"block_size": 128, "num_blocks": NaN}',
        '{"block_size": 128, "num_blocks": ' + "9" * 5000 + "}",
        '{"block_size": 128, "num_blocks": 99999999999999999999}',
    ],
)
def test_what_cannot_be_read(text: str) -> None:
    """There is no report then: nothing is guessed, and nothing fails."""
    assert kv_cache_report(text) is None


def test_a_type_that_acts_on_a_terminal() -> None:
    """It is spelled out, and cut off."""
    report = kv_cache_report(json.dumps({**WRITTEN, "cache_dtype": "\x1b]0;x\x07" + "y" * 99}))

    assert report is not None
    assert report.cache_dtype == r"\x1b]0;x\x07" + "y" * 20
