"""The series that a host writes to Cloud Monitoring, made of metrics that a real server gave."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from series import (
    CUMULATIVE,
    DISTRIBUTION,
    GAUGE,
    NOTHING,
    PREFIX,
    SERIES,
    Counts,
    Histogram,
    Since,
    read_counts,
    request,
    since,
)

from tpuflex.alerts import signals
from tpuflex.alerts.signals import Kind
from tpuflex.measure.metrics import EngineMetrics

RECORDED = Path("tests/measure/recorded")
BEFORE, AFTER = (RECORDED.joinpath(f"{name}.txt").read_text() for name in ("before", "after"))
PLACE = {"project_id": "p", "location": "us-east5-a", "namespace": "dev", "node_id": "n-g1"}
NOW = 1_795_262_400.0
STARTED = "2026-11-21T11:00:00.123456789Z"


def values(document: dict[str, Any]) -> dict[str, Any]:
    """By name of a series, the value of its one point."""
    found = {}
    for each in document["timeSeries"]:
        (point,) = each["points"]
        (found[each["metric"]["type"].removeprefix(PREFIX)],) = point["value"].values()
    return found


def test_a_real_servers_metrics_become_points() -> None:
    """Each series has what the reader of the command line makes of the same text; the time to the
    first token is in vLLM's own buckets."""
    counts = read_counts(AFTER)
    seen = values(request(PLACE, NOW, {"up": 1.0, "requests_in_flight": 2.0}, counts, NOW - 60))
    read = EngineMetrics.parse(AFTER, datetime.now(UTC))

    assert seen.keys() == {each.name for each in SERIES} - {"run_seconds_left"}
    assert seen["kv_cache_usage"] == read.kv_use
    for name in ("prompt_tokens", "generation_tokens", "preemptions"):
        assert int(seen[name]) == getattr(read, name)
    assert int(seen["requests_succeeded"]) == sum(read.success.values())
    assert (seen["up"], seen["requests_in_flight"]) == ("1", "2")
    ttft, first = seen["time_to_first_token"], read.ttft
    assert first is not None
    bounds = ttft["bucketOptions"]["explicitBuckets"]["bounds"]
    assert [*bounds, math.inf] == [edge for edge, _ in first.buckets]
    assert [*map(int, ttft["bucketCounts"])][7:12] == [4, 2, 4, 2, 6]
    assert (ttft["count"], ttft["mean"]) == ("46", pytest.approx(first.mean))


def test_points_say_where_and_since_when() -> None:
    """The resource is the host; what counts up says since when, what does not has one time."""
    document: Any = request(PLACE, NOW, {"up": 1.0}, read_counts(BEFORE), NOW - 3600)
    for each in document["timeSeries"]:
        assert each["resource"] == {"type": "generic_node", "labels": PLACE}
        begins = each["points"][0]["interval"].get("startTime")
        counts_up = each["metricKind"] == CUMULATIVE
        assert begins == ("2026-11-21T11:00:00.000Z" if counts_up else None)
        assert each["points"][0]["interval"]["endTime"] == "2026-11-21T12:00:00.000Z"


def test_without_an_answer_the_host_says_what_it_knows() -> None:
    """A server that is down has no counters: they would be its last ones."""
    seen = values(request(PLACE, NOW, {"up": 0.0, "run_seconds_left": 59.9}, NOTHING, None))
    assert seen == {"up": "0", "run_seconds_left": "59"}


def test_several_engines_are_one() -> None:
    """Counters and histograms add up; of the KV caches the fullest counts."""
    text = "\n".join(
        f'vllm:{name}{{engine="{engine}"{more}}} {value}'
        for engine in (0, 1)
        for name, more, value in (
            ("kv_cache_usage_perc", "", 0.2 + engine / 2),
            ("generation_tokens_total", "", 10),
            ("time_to_first_token_seconds_bucket", ',le="0.5"', 1),
            ("time_to_first_token_seconds_bucket", ',le="+Inf"', 3),
            ("time_to_first_token_seconds_sum", "", 4),
        )
    )
    assert read_counts(text) == Counts(
        {"kv_cache_usage": 0.7, "generation_tokens": 20},
        {"time_to_first_token": Histogram((0.5,), (2, 4), 8)},
    )


_BUCKET = 'vllm:time_to_first_token_seconds_bucket{le="%s"} %s\n'


@pytest.mark.parametrize(
    "text",
    [
        "vllm:generation_tokens_total NaN",
        "vllm:generation_tokens_total -1",
        "vllm:kv_cache_usage_perc 1e400",
        _BUCKET % ("+Inf", 3),
        _BUCKET % ("0.5", 3) + _BUCKET % ("1.0", 4),
        _BUCKET % ("0.5", 5) + _BUCKET % ("+Inf", 4),
        _BUCKET % ("-1", 1) + _BUCKET % ("+Inf", 4),
        "".join(_BUCKET % (edge, 1) for edge in (*range(200), "+Inf")),
    ],
)
def test_what_cannot_have_been_counted_is_left_out(text: str) -> None:
    """The container writes it: that is no reason for Google to refuse the rest."""
    assert read_counts(text) == NOTHING


def counted(tokens: float) -> Counts:
    """What a server has counted that has made so many tokens."""
    return Counts({"generation_tokens": tokens}, {})


@pytest.mark.parametrize(
    ("process", "tokens", "start"),
    [
        pytest.param("first", 60, NOW - 600, id="it goes on"),
        pytest.param("first", 3, NOW + 0.001, id="a counter fell"),
        pytest.param("second", 3, NOW + 30, id="another process"),
        pytest.param("second", 90, NOW + 30, id="another process that has counted more"),
        pytest.param("earlier", 3, NOW + 0.001, id="a clock that went back"),
    ],
)
def test_counters_start_again_after_the_last_point(process: str, tokens: int, start: float) -> None:
    """Google takes a point whose start is that of the last one, or later than its end."""
    before = since(None, "first", NOW - 600, NOW, counted(50))
    assert before == Since("first", NOW - 600, NOW, counted(50))

    started = {"first": NOW - 600, "second": NOW + 30, "earlier": NOW - 900}[process]
    after = since(before, process, started, NOW + 60, counted(tokens))

    assert after == Since(process, start, NOW + 60, counted(tokens))


def test_a_counter_that_was_not_said_has_not_fallen() -> None:
    """A look that gave no counters, or not all, moves no start: to Google that is a reset, after
    which all that was ever counted is new."""
    before = Since("first", NOW - 600, NOW, NOTHING)

    after = since(before, "first", NOW - 600, NOW + 60, counted(50))

    assert after == Since("first", NOW - 600, NOW + 60, counted(50))


def test_no_time_is_no_start() -> None:
    """A server that was started after the look that it answered has no counters yet."""
    assert since(None, "first", NOW + 1, NOW, counted(1)) is None


def test_a_series_has_one_row() -> None:
    """Names and sources are used once, and only a histogram is a distribution."""
    assert len({each.name for each in SERIES}) == len(SERIES)
    sources = [each.source for each in SERIES if each.source]
    assert len({*sources}) == len(sources)
    assert {each.name for each in SERIES if each.type == DISTRIBUTION} == {"time_to_first_token"}


def test_alerts_ask_for_what_hosts_write() -> None:
    """Each signal that has a name in Cloud Monitoring is a series, made of the metric by which
    Prometheus knows it."""
    written = {each.name: each for each in SERIES}
    kinds = {GAUGE: Kind.GAUGE, CUMULATIVE: Kind.COUNTER}
    asked = [each for each in vars(signals).values() if isinstance(each, signals.Signal)]

    for signal in (each for each in asked if each.cloud):
        series = written[signal.cloud]
        kind = Kind.HISTOGRAM if series.type == DISTRIBUTION else kinds[series.kind]
        assert kind == signal.kind
        if series.source:
            assert signal.prometheus == f"vllm:{series.source}"
    assert signals.CLOUD_PREFIX == PREFIX


def test_the_guide_has_every_series() -> None:
    """Its table is that of the rows."""
    guide = Path("docs/how-to/watch.md").read_text()
    for each in SERIES:
        row = f"| `{each.name}` | {each.kind} {each.type} | `{each.unit}` | {each.description} |"
        assert row in guide
