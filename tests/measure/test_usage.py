"""How an endpoint is used, look by look, and what that has cost."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count

import pytest

from tests.measure.fake_server import AFTER, BEFORE, FakeServer
from tpuflex.errors import AccessError, ApiError
from tpuflex.measure.metrics import EngineMetrics
from tpuflex.measure.server import ServerClient
from tpuflex.measure.usage import Cost, looks, settled

FREE = Cost(Decimal(0), Decimal(0), None, None)
AT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def server(found: ServerClient) -> ServerClient:
    """It, with a clock that goes on by five seconds at each look at it."""
    ticks = count()
    return ServerClient(
        found.endpoint,
        found.through,
        found.model,
        found.key,
        found.session,
        now=lambda: AT + timedelta(seconds=5 * next(ticks)),
        pause=lambda _seconds: None,
    )


def test_one_look_after_the_other() -> None:
    """The first has what was counted since the start, the next ones the interval, too."""
    with FakeServer().running() as found:
        watched = looks(server(found), "dev", 5.0, lambda _metrics: FREE)
        first, second, third = next(watched), next(watched), next(watched)

    assert first.interval is None
    assert second.interval is not None
    assert second.interval.generation_tokens == 356
    assert second.interval.seconds == 5.0
    assert third.interval is not None
    assert third.interval.generation_tokens == 0
    document = json.loads(json.dumps(second.to_json(), allow_nan=False))
    assert document["interval"]["generation_tokens_per_second"] == 71.2
    assert document["since_start"]["ttft"]["count"] == 46
    assert document["since_start"]["ttft"]["p95"] > document["since_start"]["ttft"]["p50"]


RUNNING = re.sub(r"(?m)^(vllm:num_requests_running\{.*\}) .*$", r"\1 2.0", BEFORE)


@pytest.mark.parametrize(
    ("metrics", "in_flight", "stalled"),
    [
        # Frozen before it said that the request had come, and after.
        ([BEFORE, BEFORE], (1, 1), True),
        ([RUNNING, RUNNING], (0, 0), True),
        ([BEFORE, AFTER], (1, 1), False),
        # One that idles; and a request that has only come.
        ([BEFORE, BEFORE], (0, 0), False),
        ([BEFORE, BEFORE], (0, 1), False),
    ],
)
def test_an_engine_that_makes_no_step(
    metrics: list[str | int], in_flight: tuple[int, int], stalled: bool
) -> None:
    """It is stalled where requests are in flight at both looks, and idle without them."""
    fake = FakeServer()
    said: list[str | int] = [json.dumps({"in_flight": number}) for number in in_flight]
    fake.documents |= {"/metrics": metrics, "/tpuflex/requests": said}

    with fake.running() as found:
        watched = looks(server(found), "dev", 5.0, lambda _metrics: FREE)
        first, second = next(watched), next(watched)

    assert (first.stalled, second.stalled) == (False, stalled)
    document = second.to_json()
    assert (document["in_flight"], document["stalled"]) == (in_flight[1], stalled)


@pytest.mark.parametrize(("in_flight", "asked"), [(0, 1), (1, 2)])
def test_a_second_look(in_flight: int, asked: int) -> None:
    """It is taken only where requests are in flight of which the engine says nothing."""
    fake = FakeServer()
    fake.documents |= {"/tpuflex/requests": [json.dumps({"in_flight": in_flight})]}

    with fake.running() as found:
        settled(looks(server(found), "dev", 1.0, lambda _metrics: FREE))

    assert fake.asked.count("/metrics") == asked


def test_while_there_is_no_answer_the_last_values_stand() -> None:
    """With their age; after two intervals they are stale; and then the interval spans the gap."""
    fake = FakeServer()
    fake.documents["/metrics"] = [BEFORE, 503, 503, 503, AFTER]

    with fake.running() as found:
        watched = looks(server(found), "dev", 5.0, lambda _metrics: FREE)
        seen = [next(watched) for _ in range(5)]

    assert [(each.age, each.stale) for each in seen] == [
        *((0.0, False), (5.0, False), (10.0, False), (15.0, True)),
        (0.0, False),
    ]
    assert all(each.metrics is seen[0].metrics for each in seen[:4])
    assert "answered 503" in seen[1].why
    last = seen[4]
    assert last.why == ""
    assert last.interval is not None
    assert (last.interval.seconds, last.interval.generation_tokens) == (20.0, 356)


def test_what_ends_a_watch() -> None:
    """There is nothing to keep before the first answer; and a refused key is no pause."""
    fake = FakeServer()
    fake.documents["/metrics"] = [503]
    with fake.running() as found, pytest.raises(ApiError):
        next(looks(found, "dev", 5.0, lambda _metrics: FREE))

    fake = FakeServer()
    with fake.running() as found:
        watched = looks(found, "dev", 5.0, lambda _metrics: FREE)
        next(watched)
        fake.key = "another"
        with pytest.raises(AccessError):
            next(watched)


def test_the_cost_of_tokens() -> None:
    """All of the slice's cost since the server's start, over one kind of tokens alone."""
    started = AT - timedelta(hours=2)
    text = AFTER.replace(
        "process_start_time_seconds 1.79591492195e+09",
        f"process_start_time_seconds {started.timestamp()}",
    )
    metrics = EngineMetrics.parse(text, AT)

    cost = Cost.of(Decimal("5.54"), Decimal("13.85"), metrics)

    assert (cost.since, cost.since_start) == (started, Decimal("11.08"))
    assert cost.per_million(metrics.generation_tokens) == Decimal("1E+4")
    assert round(cost.per_million(metrics.prompt_tokens) or 0, 2) == Decimal("1186.80")
    assert cost.per_million(0) is None
    assert cost.per_million(None) is None


@pytest.mark.parametrize(
    ("per_hour", "started"), [(None, "1.0"), (Decimal(1), "NaN"), (Decimal(1), "1e300")]
)
def test_a_cost_that_is_not_known(per_hour: Decimal | None, started: str) -> None:
    """Without a price, or a start, there is none; a start in the future is none."""
    text = f"vllm:generation_tokens_total 10.0\nprocess_start_time_seconds {started}\n"

    cost = Cost.of(per_hour, None, EngineMetrics.parse(text, AT))

    assert cost.per_million(10) is None
