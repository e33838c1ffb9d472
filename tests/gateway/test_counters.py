"""What a gateway counts, as Prometheus reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tpuflex.gateway.counters import Counters
from tpuflex.gateway.first_token import LEAST, FirstTokenLimits
from tpuflex.gateway.in_flight import InFlightLimit
from tpuflex.gateway.outcome import Outcome, Reason
from tpuflex.gateway.upstream import Upstream

GOOD = Outcome(
    id="1",
    client="mobile",
    request_class="interactive",
    model="served",
    upstream="prod/prod-g7",
    pool=0,
    status=200,
    reason=None,
    streamed=True,
    moved=None,
    waited_s=0.2,
    first_token_s=0.8,
    seconds=2.0,
    prompt_tokens=7,
    generated_tokens=3,
)
REFUSED = replace(
    GOOD,
    upstream=None,
    pool=None,
    status=503,
    reason=Reason.FULL,
    first_token_s=None,
    prompt_tokens=None,
    generated_tokens=None,
)


def upstream(name: str, **state: Any) -> Upstream:
    return Upstream(name, "http://127.0.0.1:1/v1", "model", InFlightLimit(4, 8), **state)


@dataclass
class Parts:
    """The fleet and the admission of a gateway, as counters see them."""

    found: list[Upstream] = field(default_factory=list)
    time: float = 100.0

    def upstreams(self) -> list[Upstream]:
        return self.found

    def models(self) -> list[str]:
        return ["served"]

    def serving(self, model: str) -> int:
        return sum(each.serves for each in self.found) if model == "served" else 0

    def unseen_stacks(self) -> dict[str, str]:
        return {"west": "Stack west has no slice."}

    def waiting(self, request_class: str) -> int:
        return 3 if request_class == "batch" else 0

    def counters(self) -> Counters:
        parts = cast("Any", self)
        return Counters(parts, parts, ["interactive", "batch"], now=lambda: self.time)


def read(counters: Counters) -> dict[str, dict[str, float]]:
    """Metric -> labels, as they are shown -> value."""
    found: dict[str, dict[str, float]] = {}
    for family in text_string_to_metric_families(counters.text().decode()):
        for sample in family.samples:
            values = found.setdefault(sample.name.removeprefix("tpuflex_gateway_"), {})
            key = _key(sample.labels)
            assert key not in values, (sample.name, key)
            values[key] = sample.value
    return found


def _key(labels: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))


def test_how_requests_have_ended() -> None:
    """By status and reason; an upstream by its name in the configuration, whose nodes change every
    week; what is not known has no label's value."""
    counters = Parts().counters()
    moved = replace(GOOD, moved=Reason.TOO_LATE, upstream="url", pool=1)
    unknown = replace(
        REFUSED, client="", request_class="", model="", status=401, reason=Reason.INVALID_KEY
    )
    cached = replace(REFUSED, status=200, reason=None, cached=True)
    broken_off = replace(GOOD, model="other", reason=Reason.UPSTREAM_FAILED)
    for each in (GOOD, GOOD, moved, REFUSED, unknown, cached, broken_off):
        counters.ended(each)
    found = read(counters)

    of, other = "class=interactive,model=served", "class=interactive,model=other"
    assert found["requests_total"] == {
        f"{of},pool=0,reason=,status=200,upstream=prod": 2,
        f"{of},pool=1,reason=,status=200,upstream=url": 1,
        f"{of},pool=,reason=overloaded,status=503,upstream=": 1,
        f"{of},pool=,reason=,status=200,upstream=": 1,
        "class=,model=,pool=,reason=invalid_api_key,status=401,upstream=": 1,
        f"{other},pool=0,reason=upstream_failed,status=200,upstream=prod": 1,
    }
    assert found["failed_requests_total"] == {
        of: 1,
        "class=,model=": 0,
        other: 1,
    }
    assert found["moved_requests_total"] == {"why=first_token_timeout": 1}
    assert found["cached_answers_total"] == {"model=served": 1}
    assert found["tokens_total"] == {
        "client=mobile,kind=prompt": 28,
        "client=mobile,kind=generated": 12,
    }
    assert found["waited_seconds_count"] == {"class=interactive": 6}
    assert counters.ends()["interactive"] == {
        "": 4,
        "overloaded": 1,
        "upstream_failed": 1,
    }


@pytest.mark.parametrize(
    ("seconds", "edge"), [(0.05, "0.1"), (0.8, "0.8"), (0.8001, "1.0"), (2.0, "2.0"), (31, "+Inf")]
)
def test_first_tokens_by_the_limits_that_are_promised(seconds: float, edge: str) -> None:
    """What came exactly in time counts as in time."""
    counters = Parts().counters()
    counters.ended(replace(GOOD, first_token_s=seconds))
    found = read(counters)["time_to_first_token_seconds_bucket"]
    within = [key for key, value in found.items() if value]

    assert len(found) == 11
    assert within[0] == f"class=interactive,le={edge},model=served,pool=0,upstream=prod"


def test_how_full_a_gateway_is() -> None:
    """Upstreams by name and node. One that is there twice, since the way to it was made again, is
    one for Prometheus, which would refuse all of it otherwise."""
    old = upstream("prod/prod-g7", open=False, draining=True, in_flight=2)
    new = upstream("prod/prod-g7", open=True, in_flight=3, ends=160.0, kv_use=0.5)
    url = upstream("url", open=False)
    breaker = new.breaker("interactive", FirstTokenLimits(1.5, 2.0))
    for _ in range(LEAST):
        breaker.first_token(breaker.begin(0.0), 1.9)
    found = read(Parts([new, url, old]).counters())

    node, no_node = "node=prod-g7,upstream=prod", "node=,upstream=url"
    assert found["in_flight_requests"] == {node: 5, no_node: 0}
    assert found["in_flight_limit"] == {node: 4, no_node: 4}
    assert found["upstream_open"] == {node: 1, no_node: 0}
    assert found["upstream_draining"] == {node: 0, no_node: 0}
    assert found["upstream_run_seconds_left"] == {node: 60}
    assert found["upstream_kv_use"] == {node: 0.5, no_node: 0}
    assert found["first_token_pace"] == {f"class=interactive,{node}": 1}
    assert found["waiting_requests"] == {"class=interactive": 0, "class=batch": 3}
    assert found["open_upstreams"] == {"model=served": 1}


def test_first_tokens_of_the_last_minutes() -> None:
    """The 95th percentile of an upstream's last first tokens, without those of long ago."""
    parts = Parts()
    counters = parts.counters()
    assert counters.first_token_p95("prod/prod-g7") is None

    counters.ended(replace(GOOD, first_token_s=60.0))
    parts.time += 301
    for each in range(1, 101):
        counters.ended(replace(GOOD, first_token_s=each / 100))

    assert counters.first_token_p95("prod/prod-g7") == 0.95
