"""How an endpoint is used now: what its server counts, and what that has cost so far."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from tpuflex.errors import ApiError
from tpuflex.measure.metrics import Counters, EngineMetrics, Histogram, Interval, exact
from tpuflex.measure.server import ServerClient, open_server
from tpuflex.operate.endpoint_connection import serving_slice
from tpuflex.planning.cost import cost_in, usd
from tpuflex.planning.token_cost import usd_for_million
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection

_SECONDS_PER_HOUR = 3600
#: Intervals without an answer after which the last values are stale.
_STALE_AFTER = 2
#: Seconds to a second look, where one look cannot tell whether the engine is frozen.
SOON_S = 1.0
QUANTILES = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
#: Histogram of :class:`Counters` -> what it is called.
LATENCIES = {
    "ttft": "first token",
    "inter_token": "between tokens",
    "e2e": "whole answer",
    "queue": "in the queue",
}


@dataclass(frozen=True, slots=True)
class Cost:
    """What an endpoint has cost so far.

    Attributes:
        per_hour: US dollars an hour of its slice; None where the price is not known.
        spent: US dollars of its run so far, those of a slice beside it included; None as above.
        since: when the server was started, from which on it counts; None where it does not say.
        since_start: US dollars of the slice since then.
    """

    per_hour: Decimal | None
    spent: Decimal | None
    since: datetime | None
    since_start: Decimal | None

    def per_million(self, tokens: float | None) -> Decimal | None:
        """US dollars for a million of ``tokens``, which were counted since the server's start, if
        they alone had to pay for all of it."""
        if self.since_start is None or not tokens:
            return None
        return usd_for_million(self.since_start, Decimal(str(tokens)))

    @classmethod
    def of(cls, per_hour: Decimal | None, spent: Decimal | None, metrics: EngineMetrics) -> Cost:
        """The cost of a slice at ``per_hour``, whose server says ``metrics``."""
        since = metrics.began
        if since is None:
            return cls(per_hour, spent, None, None)
        seconds = Decimal(str((metrics.at - since).total_seconds()))
        paid = None if per_hour is None else per_hour * seconds / _SECONDS_PER_HOUR
        return cls(per_hour, spent, since, paid)


@dataclass(frozen=True, slots=True)
class Usage:
    """One look at an endpoint.

    Attributes:
        stack: its stack.
        endpoint: its base URL, as it was asked.
        metrics: what the server said when it last answered.
        cost: what it has cost by then.
        interval: what was counted since the look before; None for the first one.
        age: seconds since it last answered; 0 where it has just answered.
        stale: whether it has not answered for so long that its values may have changed.
        why: why it did not answer; empty where it did.
        in_flight: requests that the server's guard has admitted and that have not ended; None where
            it does not say. Running and waiting are what the engine last said: one that is frozen
            says nothing new.
        stalled: whether there were requests at this look and at the one before, and the engine has
            made no step between them.
    """

    stack: str
    endpoint: str
    metrics: EngineMetrics
    cost: Cost
    interval: Interval | None = None
    age: float = 0.0
    stale: bool = False
    why: str = ""
    in_flight: int | None = None
    stalled: bool = False

    @property
    def open_requests(self) -> int:
        """Requests that have not ended, by the guard or by the engine: the larger number."""
        return max(self.in_flight or 0, self._known_requests)

    @property
    def unknown_requests(self) -> bool:
        """Whether requests are in flight that the engine does not count."""
        return self.open_requests > self._known_requests

    @property
    def _known_requests(self) -> int:
        return int((self.metrics.running or 0.0) + (self.metrics.waiting or 0.0))

    def next(self, metrics: EngineMetrics, cost: Cost, in_flight: int | None) -> Usage:
        """The look after this one."""
        interval = metrics.since(self.metrics)
        found = Usage(self.stack, self.endpoint, metrics, cost, interval, in_flight=in_flight)
        busy = min(self.open_requests, found.open_requests) > 0
        return replace(found, stalled=busy and not interval.restarted and interval.steps == 0)

    def to_json(self) -> dict[str, object]:
        """The document that ``tpuflex metrics --json`` prints."""
        now, cost = self.metrics, self.cost
        counted = {
            "generated": now.generation_tokens,
            "prompt": now.prompt_tokens,
            "prompt_computed": now.computed_tokens,
            "prompt_cached": now.cached_tokens,
        }
        return {
            "stack": self.stack,
            "endpoint": self.endpoint,
            "at": now.at.isoformat(),
            "age_seconds": round(self.age, 1),
            "stale": self.stale,
            "why": self.why or None,
            "running": exact(now.running),
            "waiting": exact(now.waiting),
            "in_flight": self.in_flight,
            "stalled": self.stalled,
            "kv_use": now.kv_use,
            "kv_tokens": None if now.kv_cache is None else now.kv_cache.tokens,
            "since_start": _counted(now),
            "interval": None if self.interval is None else _interval(self.interval),
            "cost": {
                "usd_per_hour": usd(cost.per_hour),
                "usd_so_far": usd(cost.spent),
                "since": None if cost.since is None else cost.since.isoformat(),
                "usd_since": usd(cost.since_start),
                "usd_per_million": {
                    name: usd(cost.per_million(tokens)) for name, tokens in counted.items()
                },
            },
        }


def _counted(counted: Counters) -> dict[str, object]:
    return {
        "prompt_tokens": exact(counted.prompt_tokens),
        "computed_tokens": exact(counted.computed_tokens),
        "cached_tokens": exact(counted.cached_tokens),
        "generation_tokens": exact(counted.generation_tokens),
        "prefix_cache_hit_rate": counted.hit_rate,
        "preemptions": exact(counted.preemptions),
        "success": {reason: exact(count) for reason, count in counted.success.items()},
        **{name: _latency(getattr(counted, name)) for name in LATENCIES},
    }


def _interval(interval: Interval) -> dict[str, object]:
    return {
        "seconds": round(interval.seconds, 3),
        "restarted": interval.restarted,
        "generation_tokens_per_second": interval.rate(interval.generation_tokens),
        "prompt_tokens_per_second": interval.rate(interval.prompt_tokens),
        **_counted(interval),
    }


def _latency(histogram: Histogram | None) -> dict[str, object] | None:
    if histogram is None:
        return None
    return {
        "mean": histogram.mean,
        **{name: histogram.quantile(q) for name, q in QUANTILES},
        **histogram.to_json(),
    }


def read_usage(cloud: Connection, report: Report = silent, *, tunnel: bool = True) -> Usage:
    """How the endpoint of the stack of ``cloud`` is used now; by a second look after a second,
    where requests are in flight of which the engine says nothing.

    Args:
        cloud: the stack's cloud.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.

    Raises:
        ApiError: it does not say.
        NotFoundError, AccessError, TpuflexError: as
            :func:`tpuflex.measure.server.open_server`, and where the key is refused.
    """
    with closing(watch_usage(cloud, SOON_S, report, tunnel=tunnel)) as found:
        return settled(found)


def settled(found: Iterator[Usage]) -> Usage:
    """The first of the looks ``found``; the second where the first leaves open whether the engine
    is frozen."""
    first = next(found)
    return next(found) if first.unknown_requests else first


def watch_usage(
    cloud: Connection, seconds: float, report: Report = silent, *, tunnel: bool = True
) -> Generator[Usage]:
    """A look every so many seconds, without an end; one that gets no answer has the last values.

    Args:
        cloud: the stack's cloud.
        seconds: from one look to the next.
        report: receives why a tunnel is opened.
        tunnel: whether one may be opened.

    Raises:
        ApiError: there is no answer to the first look.
        NotFoundError, AccessError, TpuflexError: as :func:`read_usage`.
    """
    stack, status = cloud.stack, serving_slice(cloud)
    per_hour = cost_in(stack.settings, status.zone).per_hour

    def cost(metrics: EngineMetrics) -> Cost:
        return Cost.of(per_hour, status.cost(per_hour, cloud.now()), metrics)

    with open_server(cloud, report, tunnel=tunnel, status=status) as server:
        yield from looks(server, stack.name, seconds, cost)


def looks(
    server: ServerClient, stack: str, seconds: float, cost: Callable[[EngineMetrics], Cost]
) -> Generator[Usage]:
    """Looks at ``server``, as :func:`watch_usage`.

    Args:
        server: the server.
        stack: its stack.
        seconds: from one look to the next.
        cost: what was spent by one.
    """
    metrics = server.metrics()
    in_flight = server.in_flight()
    found = Usage(stack, server.endpoint, metrics, cost(metrics), in_flight=in_flight)
    while True:
        yield found
        server.pause(seconds)
        try:
            metrics = server.metrics()
        except ApiError as error:
            age = (server.now() - found.metrics.at).total_seconds()
            stale = age > _STALE_AFTER * seconds
            found = replace(found, age=age, stale=stale, why=error.message)
            continue
        found = found.next(metrics, cost(metrics), server.in_flight())
