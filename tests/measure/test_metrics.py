"""What a server's ``GET /metrics`` says: a text as vLLM 0.32 sends it, recorded before and after
twelve requests, without its ``_created`` lines; and texts as other servers may send them."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tpuflex.errors import ApiError
from tpuflex.measure.metrics import EngineMetrics, Histogram

BEFORE, AFTER = (
    (Path(__file__).parent / "recorded" / name).read_text("utf-8")
    for name in ("before.txt", "after.txt")
)
AT = datetime(2026, 11, 29, 12, tzinfo=UTC)
SOMETHING = 'vllm:num_requests_running{engine="0"} 1.0\n'


def parse(text: str, seconds: float = 0.0) -> EngineMetrics:
    return EngineMetrics.parse(text, AT + timedelta(seconds=seconds))


def histogram(*counts: tuple[float, float], total: float = 0.0) -> Histogram:
    return Histogram(counts, total)


def test_what_vllm_sends_is_read_whole() -> None:
    """Counters, gauges, histograms, the KV cache and the process of the recorded server."""
    found = parse(AFTER)

    assert (found.running, found.waiting, found.kv_use) == (0, 0, 0)
    assert (found.prompt_tokens, found.cached_tokens, found.computed_tokens) == (9336, 5888, 3448)
    assert (found.generation_tokens, found.preemptions, found.steps) == (1108, 0, 247)
    assert found.hit_rate == 5888 / 9336
    assert found.success == {"stop": 0, "length": 46, "abort": 0, "error": 0, "repetition": 0}
    assert found.kv_cache is not None
    assert (found.kv_cache.block_size, found.kv_cache.dtype) == (128, "auto")
    assert found.kv_cache.labels["enable_prefix_caching"] == "True"
    assert found.kv_cache.blocks is not None
    assert found.kv_cache.tokens == found.kv_cache.blocks * 128
    assert found.resident_bytes is not None
    assert found.resident_bytes > 500e6
    for each in (found.ttft, found.e2e, found.queue):
        assert each is not None
        assert each.count == 46
    # All tokens of an answer but the first have one before them.
    assert found.inter_token is not None
    assert found.inter_token.count == 1108 - 46


def test_between_two_looks() -> None:
    """An interval has what was counted in it: the twelve requests, and their rates."""
    found = parse(AFTER, 4.0).since(parse(BEFORE))

    assert not found.restarted
    assert (found.seconds, found.generation_tokens, found.success["length"]) == (4.0, 356, 12)
    assert found.rate(found.generation_tokens) == 89
    assert found.hit_rate == (5888 - 2816) / (9336 - 5652)
    assert found.ttft is not None
    assert found.ttft.count == 12


def _unstarted(text: str) -> str:
    """``text`` of a server that does not say when it was started."""
    return text.replace("process_start_time_seconds", "elsewhere")


@pytest.mark.parametrize(
    ("before", "now"),
    [
        pytest.param(
            BEFORE, AFTER.replace("time_seconds 1.7959", "time_seconds 1.7960"), id="start"
        ),
        pytest.param(_unstarted(AFTER), _unstarted(BEFORE), id="a count fell"),
    ],
)
def test_a_server_that_was_started_again(before: str, now: str) -> None:
    """By its start time, or by a counter that fell: its counts are those of the interval."""
    found = parse(now, 60).since(parse(before))

    assert found.restarted
    assert found.generation_tokens == parse(now).generation_tokens
    assert found.success == parse(now).success


def test_after_a_new_start_the_interval_begins_with_it() -> None:
    """Rates are of the time that the new process has run, not of the pause before it."""
    started = (AT + timedelta(seconds=50)).timestamp()
    fresh = SOMETHING + f"process_start_time_seconds {started}\nvllm:generation_tokens_total 30\n"

    found = parse(fresh, 60).since(parse(AFTER))

    assert (found.restarted, found.seconds) == (True, 10.0)
    assert found.rate(found.generation_tokens) == 3


def test_several_engines() -> None:
    """Counts are added, the KV cache of the fullest engine is what runs out first, and histograms
    are merged by their bounds."""
    text = """
vllm:num_requests_running{engine="0"} 3
vllm:num_requests_running{engine="1"} 4
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
vllm:request_success_total{engine="0",finished_reason="stop"} 5
vllm:request_success_total{engine="1",finished_reason="stop"} 6
vllm:cache_config_info{engine="0",num_gpu_blocks="10",block_size="16",cache_dtype="fp8"} 1
vllm:cache_config_info{engine="1",num_gpu_blocks="20",block_size="16",cache_dtype="fp8"} 1
vllm:time_to_first_token_seconds_bucket{engine="0",le="1"} 1
vllm:time_to_first_token_seconds_bucket{engine="0",le="2"} 2
vllm:time_to_first_token_seconds_bucket{engine="0",le="+Inf"} 2
vllm:time_to_first_token_seconds_sum{engine="0"} 2.5
vllm:time_to_first_token_seconds_bucket{engine="1",le="1"} 10
vllm:time_to_first_token_seconds_bucket{engine="1",le="+Inf"} 20
vllm:time_to_first_token_seconds_sum{engine="1"} 30
"""
    found = parse(text)

    assert (found.running, found.kv_use, found.success) == (7, 0.75, {"stop": 11})
    assert found.ttft == histogram((1, 11), (math.inf, 22), total=32.5)
    assert found.kv_cache is not None
    assert (found.kv_cache.blocks, found.kv_cache.tokens, found.kv_cache.dtype) == (30, 480, "fp8")


def test_names_of_older_versions() -> None:
    """The KV cache and the time between tokens were called otherwise."""
    name = "vllm:time_per_output_token_seconds"
    found = parse(
        "vllm:gpu_cache_usage_perc 0.5\nvllm:gpu_prefix_cache_hits_total 4\n"
        "vllm:gpu_prefix_cache_queries_total 8\n"
        f'{name}_bucket{{le="1.0"}} 1\n{name}_bucket{{le="+Inf"}} 1\n{name}_sum 0.5\n'
    )

    assert (found.kv_use, found.hit_rate, found.cached_tokens) == (0.5, 0.5, 4)
    assert found.inter_token == histogram((1.0, 1.0), (math.inf, 1.0), total=0.5)


def test_what_the_server_does_not_say_is_not_known() -> None:
    """Neither 0 nor a failure; and an interval does not know it either."""
    found = parse(SOMETHING)

    assert found == EngineMetrics(at=AT, running=1.0)
    assert (found.hit_rate, found.computed_tokens) == (None, None)
    later = parse(SOMETHING, 5).since(found)
    assert (later.restarted, later.generation_tokens, later.ttft) == (False, None, None)


@pytest.mark.parametrize("value", ["NaN", "-1", "+Inf", "1e400", "9" * 400, "1e30"])
def test_a_number_that_nothing_can_have_counted(value: str) -> None:
    """It is no number, wherever it stands."""
    name = "vllm:time_to_first_token_seconds"
    found = parse(
        f"{SOMETHING}vllm:generation_tokens_total {value}\nvllm:kv_cache_usage_perc {value}\n"
        f'vllm:request_success_total{{finished_reason="stop"}} {value}\n'
        f'{name}_bucket{{le="1"}} {value}\n{name}_bucket{{le="+Inf"}} 1\n{name}_sum 1\n'
        f'vllm:cache_config_info{{num_gpu_blocks="{value}",block_size="16"}} 1\n'
    )

    assert (found.generation_tokens, found.kv_use, found.success, found.ttft) == (
        *(None, None),
        *({}, None),
    )
    assert found.kv_cache is not None
    assert found.kv_cache.tokens is None


def test_reasons_are_words_and_few() -> None:
    """A server that makes them up fills neither the memory nor the screen."""
    rows = (f'vllm:request_success_total{{finished_reason="r{n}"}} 1\n' for n in range(500))
    strange = 'vllm:request_success_total{finished_reason="\\n\x1b[31m"} 1\n'

    found = parse(strange + "".join(rows))

    assert len(found.success) == 32
    assert all(reason.isalnum() for reason in found.success)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("<html><body>502</body></html>", id="a page"),
        pytest.param(SOMETHING + 'vllm:x{le="', id="broken off"),
        pytest.param(SOMETHING + "vllm:x", id="no value"),
        pytest.param(SOMETHING + "vllm:x 1 " + "9" * 400, id="no time"),
        pytest.param("python_info 1\n", id="of another server"),
        pytest.param("", id="empty"),
        pytest.param(SOMETHING + "a" * 5_000_000, id="a line without an end"),
        pytest.param(SOMETHING * 200_000, id="a text without an end"),
    ],
)
def test_what_is_no_such_text(text: str) -> None:
    """It is refused by the endpoint's name."""
    with pytest.raises(ApiError, match=r"The metrics of http://host "):
        EngineMetrics.parse(text, AT, endpoint="http://host")


#: Histograms with quantiles as Prometheus gives them:
#: https://github.com/prometheus/prometheus/blob/main/promql/promqltest/testdata/histograms.test
POSITIVE = histogram((0.1, 50), (0.2, 70), (1.0, 110), (math.inf, 120))
NEGATIVE = histogram((-0.2, 10), (-0.1, 20), (0.3, 20), (math.inf, 30))
MIDDLES = histogram((0, 0), (2, 1), (4, 2), (6, 3), (math.inf, 3))


@pytest.mark.parametrize(
    ("of", "q", "expected"),
    [
        (POSITIVE, 0, 0),
        (POSITIVE, 0.2, 0.048),
        (POSITIVE, 0.5, 0.15),
        (POSITIVE, 0.8, 0.72),
        (POSITIVE, 1, 1),
        (NEGATIVE, 0, -0.2),
        (NEGATIVE, 0.2, -0.2),
        (NEGATIVE, 0.5, -0.15),
        (NEGATIVE, 0.8, 0.3),
        (NEGATIVE, 1, 0.3),
        (MIDDLES, 1 / 6, 1),
        (MIDDLES, 1 / 2, 3),
        (MIDDLES, 5 / 6, 5),
        # All at 1.6 s, with vLLM's bounds: facts of the buckets, not of the requests.
        (histogram((1.0, 0), (2.5, 100), (5.0, 100), (math.inf, 100)), 0.95, 2.425),
        # A bucket that has less than the one below it counts as that one.
        (histogram((1, 10), (2, 5), (4, 20), (math.inf, 20)), 0.75, 3),
    ],
)
def test_a_quantile_is_the_one_of_prometheus(of: Histogram, q: float, expected: float) -> None:
    """Linear within a bucket, from 0 in the first, at the highest bound in the infinite one."""
    assert of.quantile(q) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("parts", "q", "expected"),
    [
        ("all", 0.3, 0.075),
        ("all", 0.5, 0.1277777777777778),
        ("job1", 0.3, 0.1),
        ("job1", 0.5, 0.14),
        ("job2", 0.3, 0.0642857142857143),
        ("job2", 0.5, 0.1125),
    ],
)
def test_a_quantile_of_merged_histograms(parts: str, q: float, expected: float) -> None:
    """Buckets are merged before a quantile is taken, as by Prometheus' ``sum by (le)``: same
    table."""
    jobs = {
        "job1": [(1, 3, 4), (2, 5, 6)],
        "job2": [(3, 4, 6), (4, 7, 9)],
    }
    counts = jobs["job1"] + jobs["job2"] if parts == "all" else jobs[parts]
    first, *others = (histogram((0.1, a), (0.2, b), (math.inf, c)) for a, b, c in counts)
    for each in others:
        first = first.plus(each)

    assert first.quantile(q) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    ("of", "q", "expected"),
    [
        # Nothing is known but that they are below the first bound.
        (histogram((0.3, 100), (0.5, 100), (math.inf, 100)), 0.5, "<0.3"),
        (histogram((20.0, 0), (40.0, 1), (math.inf, 1)), 0.95, "20-40"),
        (histogram((1.0, 0), (2.5, 100), (math.inf, 100)), 0.95, "1-2.5"),
        (histogram((1.0, 10), (2.5, 18), (math.inf, 19)), 0.5, "<1"),
        (histogram((1.0, 10), (2.5, 18), (math.inf, 19)), 0.99, ">2.5"),
        (histogram((1.0, 10), (2.0, 20), (math.inf, 20)), 0.75, "1.500"),
        (histogram((1.0, 0), (math.inf, 0)), 0.5, "-"),
    ],
)
def test_a_quantile_for_people(of: Histogram, q: float, expected: str) -> None:
    """No figure is invented where a bucket's bounds are all that is known."""
    assert of.quantile_text(q, "{:.3f}".format, "{:g}".format) == expected


def test_without_observations_there_is_no_quantile() -> None:
    """Nor a mean; nor of a histogram that has but the infinite bucket."""
    empty = histogram((1.0, 0), (math.inf, 0))

    assert (empty.quantile(0.5), empty.mean) == (None, None)
    assert histogram((math.inf, 5)).quantile(0.5) is None
    assert histogram((1.0, 0), (2.0, 5), (math.inf, 5)).quantile(0) is None


def test_a_histogram_as_a_document() -> None:
    """It is JSON as every reader knows it: without infinity."""
    document = histogram((0.5, 1), (math.inf, 2), total=3.0).to_json()

    assert json.loads(json.dumps(document, allow_nan=False)) == {
        "count": 2,
        "sum": 3.0,
        "buckets": [[0.5, 1]],
    }
