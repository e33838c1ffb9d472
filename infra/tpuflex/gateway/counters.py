"""What a gateway counts, for Prometheus and for `gateway status`.

A request costs a few additions: all is counted by the loop's one thread, and made into Prometheus'
families when somebody asks for them. Labels have names of the configuration and of this program
alone, never what a client wrote.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from tpuflex.alerts.gateway_rules import FIRST_TOKEN_EDGES, PREFIX

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from tpuflex.gateway.access_log import AccessLog
    from tpuflex.gateway.admission import Admission
    from tpuflex.gateway.fleet import Fleet
    from tpuflex.gateway.outcome import Outcome
    from tpuflex.gateway.upstream import Upstream

_WAIT_EDGES = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)
#: How many first tokens of an upstream are kept, and for how many seconds, to say how they are now.
_RECENT = 500
_RECENT_S = 300.0
_P95 = 0.95


class _Histogram:
    """How many observations there were, by the least edge that is no lower."""

    __slots__ = ("_counts", "_edges", "_sum")

    def __init__(self, edges: Sequence[float]) -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self._sum += value

    def add_to(self, family: HistogramMetricFamily, labels: Sequence[str]) -> None:
        buckets = list[tuple[str, float]]()
        total = 0
        for edge, count in zip((*map(str, self._edges), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((edge, total))
        family.add_metric(labels, buckets, self._sum)


class Counters(Collector):
    """Counts how requests end, and reads how full upstreams and waiting rooms are.

    Args:
        fleet: the upstreams.
        admission: has those who wait.
        classes: names of the classes of requests.
        log: the access log; None where there is none.
        now: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        fleet: Fleet,
        admission: Admission,
        classes: Iterable[str],
        log: AccessLog | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fleet, self._admission, self._classes = fleet, admission, tuple(classes)
        self._log, self._now = log, now
        #: By model, class, upstream, pool, status and reason.
        self._requests = Counter[tuple[str, str, str, str, int, str]]()
        #: By model and class, those of them that this gateway or its upstreams have failed.
        self._failed = Counter[tuple[str, str]]()
        #: By model, class, upstream and pool.
        self._first_tokens = defaultdict[tuple[str, str, str, str], _Histogram](
            lambda: _Histogram(FIRST_TOKEN_EDGES)
        )
        #: By class.
        self._waited = defaultdict[str, _Histogram](lambda: _Histogram(_WAIT_EDGES))
        self._moved = Counter[str]()
        self._cached = Counter[str]()
        #: By client, and whether they are of a prompt or generated.
        self._tokens = Counter[tuple[str, str]]()
        #: By upstream and, of a stack, node: when first tokens came, and after how long.
        self._recent = defaultdict[str, deque[tuple[float, float]]](lambda: deque(maxlen=_RECENT))
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def ended(self, outcome: Outcome) -> None:
        """Count a request that has ended."""
        model, request_class = outcome.model, outcome.request_class
        upstream, _ = _labels(outcome.upstream or "")
        pool = "" if outcome.pool is None else str(outcome.pool)
        reason = outcome.reason or ""
        self._requests[model, request_class, upstream, pool, outcome.status, reason] += 1
        # An answer that has begun has status 200, however it ends.
        failed = outcome.status >= 500 or (outcome.status == 200 and outcome.reason is not None)
        self._failed[model, request_class] += failed
        if request_class:
            self._waited[request_class].observe(outcome.waited_s)
        if outcome.first_token_s is not None and outcome.upstream is not None:
            histogram = self._first_tokens[model, request_class, upstream, pool]
            histogram.observe(outcome.first_token_s)
            self._recent[outcome.upstream].append((self._now(), outcome.first_token_s))
        if outcome.moved is not None:
            self._moved[outcome.moved] += 1
        if outcome.cached:
            self._cached[model] += 1
        elif outcome.upstream is not None:
            self._tokens[outcome.client, "prompt"] += outcome.prompt_tokens or 0
            self._tokens[outcome.client, "generated"] += outcome.generated_tokens or 0

    def first_token_p95(self, upstream: str) -> float | None:
        """Seconds in which 95 % of the last first tokens of an upstream came; None if there were
        none in the last five minutes."""
        recent = self._recent.get(upstream, ())
        since = self._now() - _RECENT_S
        seconds = sorted(value for at, value in recent if at >= since)
        return seconds[int(_P95 * (len(seconds) - 1) + 0.5)] if seconds else None

    def ends(self) -> Mapping[str, Mapping[str, int]]:
        """How many requests have ended by class and by reason, which is empty for those that ended
        well."""
        found = defaultdict[str, Counter[str]](Counter)
        for (_, request_class, _, _, _, reason), count in self._requests.items():
            found[request_class][reason] += count
        return found

    def text(self) -> bytes:
        """All of it as Prometheus reads it."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All of it, but for what the operating system says of the process."""
        yield from self._counted()
        yield from self._waiting()
        yield from self._upstreams()

    def _counted(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            f"{PREFIX}requests",
            "Requests that have ended",
            labels=("model", "class", "upstream", "pool", "status", "reason"),
        )
        for key, count in self._requests.items():
            requests.add_metric([str(each) for each in key], count)
        yield requests
        failed = CounterMetricFamily(
            f"{PREFIX}failed_requests",
            "Requests that no upstream could take, or that failed at one",
            labels=("model", "class"),
        )
        for of, count in self._failed.items():
            failed.add_metric(of, count)
        yield failed
        first_tokens = HistogramMetricFamily(
            f"{PREFIX}time_to_first_token_seconds",
            "Seconds from when an upstream had the request to the first token of a stream",
            labels=("model", "class", "upstream", "pool"),
        )
        for at, histogram in self._first_tokens.items():
            histogram.add_to(first_tokens, at)
        yield first_tokens
        waited = HistogramMetricFamily(
            f"{PREFIX}waited_seconds", "Seconds in the waiting room", labels=("class",)
        )
        for name, histogram in self._waited.items():
            histogram.add_to(waited, [name])
        yield waited
        moved = CounterMetricFamily(
            f"{PREFIX}moved_requests",
            "Requests that went to a second upstream, by what the first one did",
            labels=("why",),
        )
        for why, count in self._moved.items():
            moved.add_metric([why], count)
        yield moved
        cached = CounterMetricFamily(
            f"{PREFIX}cached_answers", "Answers from the cache", labels=("model",)
        )
        for model, count in self._cached.items():
            cached.add_metric([model], count)
        yield cached
        tokens = CounterMetricFamily(
            f"{PREFIX}tokens", "Tokens that upstreams have counted", labels=("client", "kind")
        )
        for (client, kind), count in self._tokens.items():
            tokens.add_metric([client, kind], count)
        yield tokens
        if self._log is not None:
            yield CounterMetricFamily(
                f"{PREFIX}access_log_dropped",
                "Requests that are missing in the access log",
                value=self._log.dropped,
            )

    def _waiting(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily(
            f"{PREFIX}waiting_requests", "Requests in the waiting room", labels=("class",)
        )
        for name in self._classes:
            waiting.add_metric([name], self._admission.waiting(name))
        yield waiting
        serving = GaugeMetricFamily(
            f"{PREFIX}open_upstreams", "Upstreams that take requests", labels=("model",)
        )
        for model in self._fleet.models():
            serving.add_metric([model], self._fleet.serving(model))
        yield serving

    def _upstreams(self) -> Iterator[Metric]:
        upstreams = by_name(self._fleet.upstreams())
        now = self._now()
        numbers: dict[str, tuple[str, Callable[[Upstream], float | None]]] = {
            "in_flight_limit": (
                "Requests that an upstream may have",
                lambda each: each.limit.value,
            ),
            "upstream_open": ("Whether an upstream takes requests", lambda each: each.open),
            "upstream_draining": (
                "Whether an upstream ends what it has, and takes nothing new",
                lambda each: each.draining,
            ),
            "upstream_kv_use": (
                "Share of an upstream's KV cache in use, as it said last",
                lambda each: each.kv_use,
            ),
            "upstream_run_seconds_left": (
                "Seconds until Google ends the run of an upstream",
                lambda each: None if each.ends is None else each.ends - now,
            ),
        }
        labels = ("upstream", "node")
        in_flight = GaugeMetricFamily(
            f"{PREFIX}in_flight_requests", "Requests that an upstream has", labels=labels
        )
        for name, some in upstreams.items():
            in_flight.add_metric(_labels(name), sum(each.in_flight for each in some))
        yield in_flight
        for metric, (words, number) in numbers.items():
            family = GaugeMetricFamily(f"{PREFIX}{metric}", words, labels=labels)
            for name, some in upstreams.items():
                value = number(some[-1])
                if value is not None:
                    family.add_metric(_labels(name), value)
            yield family
        pace = GaugeMetricFamily(
            f"{PREFIX}first_token_pace",
            "How late first tokens come, as the breaker has it: 0 in time, 1 slow, 2 very slow",
            labels=(*labels, "class"),
        )
        for name, some in upstreams.items():
            for request_class, breaker in some[-1].breakers.items():
                pace.add_metric((*_labels(name), request_class), breaker.opened)
        yield pace


def by_name(upstreams: Iterable[Upstream]) -> Mapping[str, Sequence[Upstream]]:
    """Upstreams by their names. Where one is there twice, since the way to a slice was made again
    while the old one still had requests, the new one is the last."""
    found: dict[str, list[Upstream]] = {}
    for each in sorted(upstreams, key=lambda each: not each.draining):
        found.setdefault(each.name, []).append(each)
    return found


def _labels(name: str) -> tuple[str, str]:
    """An upstream's name in the configuration, and the node that it is, if it is one of a stack."""
    upstream, _, node = name.partition("/")
    return upstream, node
