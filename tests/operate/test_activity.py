"""Since when a server is idle: only as far as its counters can tell."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tpuflex.operate.activity import Counters, Observation, idleness, read_counters

NOON = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
STARTED = (NOON - timedelta(hours=5)).timestamp()
READY = NOON - timedelta(hours=4)
#: As vLLM 0.32 answers, shortened.
METRICS = f"""\
# HELP process_start_time_seconds Start time of the process since unix epoch in seconds.
# TYPE process_start_time_seconds gauge
process_start_time_seconds {STARTED}
vllm:num_requests_running{{engine="0",model_name="m"}} 0.0
vllm:num_requests_waiting{{engine="0",model_name="m"}} 0.0
vllm:prompt_tokens_total{{engine="0",model_name="m"}} 70.0
vllm:generation_tokens_total{{engine="0",model_name="m"}} 30.0
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} 4.0
vllm:request_success_total{{engine="0",finished_reason="length",model_name="m"}} 2.0
vllm:request_success_created{{engine="0",finished_reason="stop",model_name="m"}} 1.7e+09
"""


def look(at: datetime = NOON, *, finished: float = 6.0, in_flight: float = 0.0) -> Observation:
    return Observation(at, Counters(STARTED, finished, 100.0), in_flight)


def test_the_counters_are_summed_over_their_labels() -> None:
    """Every reason to end is an answered request; other metrics do not count."""
    assert read_counters(METRICS, NOON) == look()


@pytest.mark.parametrize(
    "lacking",
    [
        "process_start_time_seconds",
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:prompt_tokens_total",
        "vllm:generation_tokens_total",
        "vllm:request_success_total",
    ],
)
def test_a_server_that_lacks_a_counter_tells_nothing(lacking: str) -> None:
    """What is not counted is not taken for zero."""
    lines = [line for line in METRICS.splitlines() if not line.startswith(lacking)]

    assert read_counters("\n".join(lines), NOON) is None


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1e300", "253402300799", "many", ""])
def test_a_counter_that_is_no_count_tells_nothing(value: str) -> None:
    """Whoever is root on the host writes the answer."""
    odd = METRICS.replace(
        f"process_start_time_seconds {STARTED}", f"process_start_time_seconds {value}"
    )

    assert read_counters(odd, NOON) is None


@pytest.mark.parametrize(
    ("now", "earlier", "since"),
    [
        (look(), (), NOON),
        (look(), (look(NOON - timedelta(hours=3)),), NOON - timedelta(hours=3)),
        (look(), (look(NOON - timedelta(hours=3), finished=5.0),), NOON),
        (look(finished=1.0), (), READY),
        (look(finished=0.0), (), READY),
        (look(finished=2.0), (), NOON),
    ],
    ids=["first look", "same since", "asked since", "own completion", "nothing", "one client"],
)
def test_since_when(now: Observation, earlier: tuple[Observation, ...], since: datetime) -> None:
    """Idle since the earliest look with the same counters, or since READY if nothing but the host's
    own completion was counted; otherwise from this look on."""
    assert idleness(now, earlier, READY).since == since


@pytest.mark.parametrize(
    ("finished", "ready", "since"),
    [
        (6.0, READY, READY),
        (7.0, READY, NOON),
        (6.0, datetime.fromtimestamp(STARTED - 1, UTC), NOON),
        (0.0, datetime.fromtimestamp(STARTED - 1, UTC), datetime.fromtimestamp(STARTED, UTC)),
    ],
    ids=["warm-up alone", "one client", "started since, and asked", "started since"],
)
def test_what_the_host_asked_counts_for_the_process_that_it_asked(
    finished: float, ready: datetime, since: datetime
) -> None:
    """A warm-up of six requests is nobody's use; a server that docker has started again since had
    none of them, so what it has answered was for others."""
    assert idleness(look(finished=finished), (), ready, own_requests=6).since == since


def test_a_server_that_works_is_not_idle() -> None:
    """A request in flight counts, whatever the counters say: a long one moves none of them."""
    found = idleness(look(in_flight=2.0), (look(NOON - timedelta(hours=3)),), READY)

    assert found.busy
    assert found.since is None
    assert found.why == "2 requests are in flight"


def test_a_restart_begins_anew() -> None:
    """Counters of another process say nothing of this one, even where they are equal."""
    other = Observation(NOON - timedelta(hours=9), Counters(STARTED - 9.0, 6.0, 100.0))

    assert idleness(look(), (other,), READY).since == NOON
