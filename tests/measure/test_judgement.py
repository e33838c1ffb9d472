"""When a point is a result, and what is said of one that is not."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measure.drives import served
from tpuflex.catalog.catalog import builtin
from tpuflex.measure.gates import parse_gate
from tpuflex.measure.judgement import Chips, Evidence, failures, in_flight, judged
from tpuflex.measure.metrics import Counters
from tpuflex.measure.run import Load, Point

LOAD = Load(concurrency=4, context=128, output=8, requests=32)


def counts(load: Load, **changed: float) -> Counters:
    """What its server counts meanwhile."""
    own: dict[str, Any] = {
        "prompt_tokens": float(load.requests * load.context),
        "cached_tokens": 0.0,
        "generation_tokens": float(load.requests * load.output),
        "preemptions": 0.0,
    }
    return Counters(**{**own, **changed})


def evidence(load: Load = LOAD, **changed: Any) -> Evidence:
    """A drive of ``load`` without a fault."""
    own = Evidence(served(load), counts(load), restarted=False, lag=0.01, busy=0.2)
    return replace(own, **changed)


def point(found: Evidence, load: Load = LOAD, chips: Chips | None = None) -> Point:
    """The point that ``found`` makes."""
    return judged(load, found, chips or Chips())


def test_a_point_without_a_fault_is_a_result() -> None:
    """Its figures are those of the requests."""
    found = point(evidence())

    assert (found.verdict, found.reasons, found.flags) == ("result", (), ())
    measured = found.measured
    assert measured is not None
    assert measured.completed == 32
    assert measured.requests_per_second == pytest.approx(32 / measured.seconds)
    assert measured.output_per_second == pytest.approx(256 / measured.seconds)
    assert measured.prompt_per_second == pytest.approx(4096 / measured.seconds)
    assert measured.ttft is not None
    assert measured.ttft.p95 == 0.2
    assert measured.inter_token is not None
    assert measured.inter_token.p50 == 0.05
    assert measured.tpot is not None
    assert measured.tpot.p50 == pytest.approx(0.05)
    assert measured.little == pytest.approx(1)
    assert measured.requests.start[:5] == (0, 0, 0, 0, 0.55)


REASONS: dict[str, tuple[dict[str, Any], str]] = {
    "a generator that pauses": (
        {"result": served(LOAD, pause=0.05)},
        "throughput x latency is 3.67 requests in flight, and 4 were asked for (-8%; at most 5%)",
    ),
    "fewer in flight than asked for": (
        {"result": served(LOAD.model_copy(update={"concurrency": 2}))},
        "throughput x latency is 2 requests in flight, and 4 were asked for (-50%; at most 5%)",
    ),
    "others who ask meanwhile": (
        {"counted": counts(LOAD, generation_tokens=264.0)},
        "the client has 256 generated tokens, and the server has counted 264 (+3.1%; at most 1%):"
        " others have used it meanwhile",
    ),
    "tokens that the server knows nothing of": (
        {"counted": counts(LOAD, prompt_tokens=2048.0)},
        "the client has 4,096 prompt tokens, and the server has counted 2,048 (-50.0%; at most 1%)",
    ),
    "a server that does not count": (
        {"counted": None},
        "the server does not say how many tokens it has counted",
    ),
    "prompts that were in the cache": (
        {"counted": counts(LOAD, cached_tokens=3072.0)},
        "75.0% of the prompts' tokens were in the server's prefix cache (at most 2%): they were not"
        " computed, and were to be new ones",
    ),
    "a generator that was stopped for a second": (
        {"lag": 1.02},
        "the load generator stood still for 1.02 s (at most 0.25 s): that is in the times of all"
        " requests in flight",
    ),
    "a generator without processor to spare": (
        {"busy": 0.97},
        "the load generator took 97% of its processor (at most 75%): it has measured itself",
    ),
    "a generator that is stopped again and again": (
        {"lag": 0.15, "stalled": 2.2},
        "the load generator stood still for 2.20 s of 4.4 s in all (at most 10%): that is in the"
        " times of the requests",
    ),
    "prompts of another length": (
        {
            "result": served(LOAD, input_lens=[100] * 32, total_input_tokens=3200),
            "counted": counts(LOAD, prompt_tokens=3200.0),
        },
        "its prompts have 100 tokens on average, and 128 were asked for (-22%; at most 2%)",
    ),
    "answers that a proxy has kept to their end": (
        {"result": served(LOAD, ttft=0.55, gap=0.00002)},
        "most answers came in one burst at their end: the stream was buffered on its way, and the"
        " time to the first token is that to the last one",
    ),
    "answers of one chunk": (
        {"result": served(LOAD, ttft=0.55, gap=0.0, itls=[[]] * 32)},
        "most answers came in one burst at their end: the stream was buffered on its way, and the"
        " time to the first token is that to the last one",
    ),
    "a last request that takes ten times as long": (
        {
            "result": served(
                LOAD, duration=8.8, latencies=[0.55] * 31 + [4.95], itls=[[0.05] * 6 + [4.45]] * 32
            )
        },
        "37% of its time passed with places empty, since its last requests took longer than the"
        " others (at most 25%): its rates are too low",
    ),
    "a server that does not say what it had cached": (
        {"counted": replace(counts(LOAD), cached_tokens=None)},
        "the server does not say how many tokens it has had in its prefix cache",
    ),
    "requests of others before it began": (
        {"open_before": 2.0},
        "2 requests were running or waiting at the server before the point began: others use it",
    ),
    "requests of others that they gave up": (
        {"counted": replace(counts(LOAD), success={"length": 32.0, "abort": 5.0})},
        "37 requests have ended at the server, and 32 were sent: others have used it meanwhile",
    ),
    "a server that was started again": (
        {"restarted": True, "counted": counts(LOAD, prompt_tokens=12.0)},
        "the server was started again meanwhile",
    ),
}


@pytest.mark.parametrize("name", REASONS)
def test_what_speaks_against_a_point_is_said(name: str) -> None:
    """In one sentence with figures, and the point is no result."""
    changed, says = REASONS[name]

    found = point(evidence(**changed))

    assert found.verdict == "not_a_result"
    assert found.reasons == (says,)


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"counted": counts(LOAD, generation_tokens=258.0)}, "0.8 % more tokens"),
        ({"result": served(LOAD, pause=0.02)}, "3.5 % fewer in flight"),
        ({"counted": counts(LOAD, cached_tokens=80.0)}, "2 % in the cache, by chance"),
        ({"lag": 0.2, "busy": 0.7, "stalled": 0.4}, "a busy generator"),
        ({"result": served(LOAD, gap=0.5), "lag": 0.27}, "one hiccup in requests that take long"),
        ({"counted": replace(counts(LOAD), success={"length": 32.0})}, "its own requests"),
        ({"result": served(LOAD, input_lens=[129] * 32)}, "a special token"),
    ],
)
def test_small_differences_are_no_contradiction(changed: dict[str, Any], what: str) -> None:
    """Each limit has room for what happens on a sound system."""
    assert point(evidence(**changed)).reasons == (), what


def test_shared_prompts_may_be_in_the_cache() -> None:
    """In their series, hits are what is measured, and are not counted as computed."""
    load = LOAD.model_copy(update={"shared": 96})
    found = point(evidence(load, counted=counts(load, cached_tokens=3072.0)), load)

    assert found.verdict == "result"
    assert found.measured is not None
    assert found.measured.prompt_per_second == pytest.approx(1024 / found.measured.seconds)


FAILED = {
    "Too Many Requests": "HTTP 429",
    "Service Unavailable": "HTTP 503",
    "Internal Server Error": "HTTP 500",
    "Slow Down, Please": "HTTP: Slow Down, Please",
    "Never received a valid chunk to calculate TTFT.": "no tokens",
    "… raise\naiohttp.client_exceptions.ClientPayloadError: not completed": "broke off",
    "… raise\nClientConnectorError: Cannot connect to host": "not connected",
    "… raise\nTimeoutError": "timed out",
}


@pytest.mark.parametrize("error", FAILED)
def test_a_failure_is_counted_by_kind_and_is_no_latency(error: str) -> None:
    """Its times are in no quantile, whatever the generator has measured of it."""
    kind = FAILED[error]
    whole = served(LOAD)
    broken = whole.model_copy(
        update={
            "errors": (error, *whole.errors[1:]),
            "output_lens": (0, *whole.output_lens[1:]),
            "latencies": (99.0, *whole.latencies[1:]),
            "ttfts": (88.0, *whole.ttfts[1:]),
            "itls": ((77.0,), *whole.itls[1:]),
        }
    )

    found = point(evidence(result=broken))

    assert found.reasons[0] == f"1 of 32 requests were not answered with their 8 tokens: 1 {kind}"
    measured = found.measured
    assert measured is not None
    assert measured.failures == {kind: 1}
    assert measured.completed == 31
    for each in (measured.latency, measured.ttft, measured.inter_token):
        assert each is not None
        assert each.max < 1
    assert measured.requests.error[:2] == (kind, "")


@pytest.mark.parametrize(
    ("tokens", "longest", "preempted", "kind"),
    [
        (8, 0.05, False, ""),
        (7, 0.05, False, "cut short"),
        (9, 0.05, False, "more tokens than asked for"),
        (0, 0.05, False, "no tokens"),
        (8, 6.0, False, "stalled"),
        (5, 6.0, False, "stalled"),
        (8, 4.0, False, ""),
        (8, 6.0, True, ""),
    ],
)
def test_an_answer_that_is_not_whole_is_a_failure(
    tokens: int, longest: float, preempted: bool, kind: str
) -> None:
    """Although its status is 200. A gap is a stall if it is far beyond all others; where the
    server has put requests back, it is a wait."""
    load = LOAD.model_copy(update={"requests": 64})
    whole = served(load)
    result = whole.model_copy(
        update={
            "output_lens": (tokens, *whole.output_lens[1:]),
            "itls": ((longest, *whole.itls[0][1:]), *whole.itls[1:]),
        }
    )

    assert failures(load, result, preempted=preempted) == (kind, *[""] * 63)


def test_a_server_that_is_slow_throughout_does_not_stall() -> None:
    """Gaps of six seconds are its speed if many are that long."""
    assert set(failures(LOAD, served(LOAD, gap=6.0))) == {""}


@given(
    st.integers(1, 6),
    st.lists(st.floats(0.01, 30), min_size=1, max_size=40),
)
def test_little_holds_whatever_requests_take(concurrency: int, latencies: list[float]) -> None:
    """Where a request begins as soon as one ends, throughput x latency is the concurrency, however
    short the stretch and however different the requests."""
    load = Load(concurrency=concurrency, context=8, output=8, requests=len(latencies))
    free = [0.0] * concurrency
    starts = []
    for latency in latencies:
        slot = min(range(concurrency), key=free.__getitem__)
        starts.append(free[slot])
        free[slot] += latency

    found = in_flight(load, starts, latencies)

    if found is None:
        assert len(latencies) <= concurrency
    else:
        assert found == pytest.approx(1)


CATALOG = builtin()
CHIPS = Chips(
    model=CATALOG.model("google/gemma-4-31B-it"),
    accelerator=CATALOG.accelerator("v6e-4"),
    usd_per_hour=Decimal("5.40"),
    max_num_seqs=256,
)


def test_figures_above_a_ceiling_are_no_results() -> None:
    """463k tokens/s for 31B on v6e-4, as published: the chips cannot compute that many; and its
    prompts were read in less time than they take."""
    load = Load(concurrency=16, context=4096, output=8, requests=128)
    found = point(evidence(load, result=served(load, ttft=0.05, gap=0.001)), load, CHIPS)

    assert found.verdict == "not_a_result"
    assert found.flags == ()
    together, decoded, first = found.reasons
    assert "tokens/s of prompts and answers are above the 62,688 that" in together
    assert "tokens/s of answers are above the" in decoded
    assert "takes 0.0" in first


def test_a_figure_near_the_peak_is_doubtful() -> None:
    """Nothing forbids it, and nobody reaches it: it is flagged, and no gate is decided by it."""
    load = Load(concurrency=16, context=4096, output=8, requests=128)
    found = point(evidence(load, result=served(load, ttft=1.0, gap=0.02)), load, CHIPS)

    assert (found.verdict, found.doubtful) == ("result", True)
    assert "not credible in bfloat16" in found.flags[0]
    assert parse_gate("ttft_p95<9s").verdict(found) == "undecided"


def test_chunks_of_several_tokens_have_no_time_between_tokens() -> None:
    """As of a server that speculates: what is known is the mean of each request."""
    chunked = served(LOAD, itls=[[0.1] * 3] * 32)
    found = point(evidence(result=chunked))

    assert (found.verdict, found.doubtful) == ("result", False)
    assert found.measured is not None
    assert found.measured.inter_token is None
    assert found.measured.tpot is not None
    assert found.measured.tpot.p50 == pytest.approx(0.05)
    assert "fewer chunks than tokens" in found.flags[0]


def test_requests_that_always_wait_are_said() -> None:
    """The server computes fewer at once than are in flight."""
    found = point(evidence(), chips=Chips(max_num_seqs=3))

    assert (found.verdict, found.doubtful) == ("result", False)
    assert found.flags == (
        "1 of 4 requests always wait in the server's queue: it computes 3 at once (max_num_seqs)",
    )


def test_as_many_requests_as_users_say_nothing() -> None:
    """None of them took the place of another one."""
    load = LOAD.model_copy(update={"concurrency": 32})
    found = point(evidence(load), load)

    assert found.reasons == (
        "all 32 requests were sent at once: none began as another one ended, so nothing says that"
        " 32 were in flight",
    )


@pytest.mark.parametrize(
    ("cached", "says"),
    [
        (96, ""),
        (72, ""),
        (0, "0.0% of the prompts' tokens were in the server's prefix cache, and 75.0% are in"),
        (120, "93.8% of the prompts' tokens were in the server's prefix cache (at most 77%)"),
    ],
)
def test_what_prompts_share_is_in_the_cache_and_nothing_else(cached: int, says: str) -> None:
    """In whole blocks; the first request of each user may have come too early."""
    load = LOAD.model_copy(update={"shared": 100})
    counted = counts(load, cached_tokens=cached * 32.0)
    found = point(evidence(load, counted=counted), load, Chips(block_size=16))

    assert [reason[: len(says)] for reason in found.reasons] == ([says] if says else [])


def test_a_figure_that_chips_can_reach_has_no_flag() -> None:
    """Ceilings and the price of a million tokens stand beside it."""
    load = Load(concurrency=16, context=1024, output=64, requests=128)
    found = point(evidence(load, result=served(load, ttft=0.9, gap=0.03)), load, CHIPS)

    assert found.flags == ()
    rate = found.measured.output_per_second if found.measured else 0
    assert found.usd_per_million == pytest.approx(
        Decimal(5.40 / 3600 / rate * 1e6), rel=Decimal("1e-4")
    )
    ceilings = found.ceilings
    assert ceilings.prompt_per_second is not None
    assert ceilings.output_per_second is not None
    assert rate < ceilings.output_per_second
    assert ceilings.first_token == pytest.approx(1024 / 60_000, rel=0.1)


def test_preemptions_are_said() -> None:
    """They are how the server works under that load, and no contradiction."""
    found = point(evidence(counted=counts(LOAD, preemptions=3.0)))

    assert found.verdict == "result"
    assert found.flags == (
        "the server has put requests back 3 times to make room in its KV cache, and has computed"
        " them again",
    )


def test_quantised_weights_have_no_ceiling_for_decoding() -> None:
    """How many bytes a step reads is not known then."""
    ceilings = replace(CHIPS, decodes_plainly=False).ceilings(LOAD)

    assert ceilings.output_per_second is None
    assert ceilings.first_token is None
    plain = CHIPS.ceilings(LOAD).prompt_per_second
    assert plain is not None
    assert ceilings.prompt_per_second == 2 * plain  # the peak of eight bits, not of bfloat16
