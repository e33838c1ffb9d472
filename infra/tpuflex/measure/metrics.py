"""What a vLLM server counts: the text of its ``GET /metrics`` as values.

The names are vLLM's (``vllm/v1/metrics/loggers.py``, read in 0.32), with those of older versions
beside them; the format is Prometheus' (https://prometheus.io/docs/instrumenting/exposition_formats/).
What answers may not be the server that was started: its text is bounded, and a number that nothing
can have counted is no number.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from functools import reduce
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Self

from tpuflex.errors import ApiError

if TYPE_CHECKING:
    from prometheus_client.samples import Sample

#: Bytes of such a text that are read, and of one of its lines. vLLM 0.32 sends 60 KiB.
MOST_BYTES = 4 * 1024 * 1024
_LONGEST_LINE = 16 * 1024
#: No count is larger.
MOST = 2.0**63
#: Labels whose values become keys: how many are kept.
_MOST_KEYS = 32

_RUNNING, _WAITING = "vllm:num_requests_running", "vllm:num_requests_waiting"
_KV_USE = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_PREFIX_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
_PREFIX_QUERIES = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_INTER_TOKEN = ("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds")
_CACHE_CONFIG = "vllm:cache_config_info"
#: Observations from which on a quantile may be interpolated within a bucket.
_ENOUGH = 20


@dataclass(frozen=True, slots=True)
class Histogram:
    """Observations, counted by how large they were at most.

    Attributes:
        buckets: upper bound -> observations up to it, those of lower buckets included; by bound,
            the last one is infinite.
        sum: of the observations.
    """

    buckets: tuple[tuple[float, float], ...]
    sum: float

    @property
    def sound(self) -> bool:
        """Whether it can have come from observations: it has a bucket below the infinite one, and
        no bound or count that nothing has."""
        *below, last = (bound for bound, _ in self.buckets) if self.buckets else (math.nan,)
        return (
            len(below) > 0
            and last == math.inf
            and all(0 <= bound <= MOST for bound in below)
            and all(lower < upper for lower, upper in pairwise(below))
            and all(0 <= each <= MOST for each in (self.sum, *(count for _, count in self.buckets)))
        )

    @property
    def count(self) -> float:
        """How many observations there are."""
        return self.buckets[-1][1]

    @property
    def mean(self) -> float | None:
        """The mean observation; None without any."""
        return self.sum / self.count if self.count > 0 else None

    def quantile(self, q: float) -> float | None:
        """What Prometheus' ``histogram_quantile(q, …)`` says: linear within a bucket, from 0 in the
        first one; in the infinite one the highest bound there is.

        None where that has no answer: without observations.
        """
        bucket = self._bucket(q)
        if bucket is None:
            return None
        if bucket.upper == math.inf:
            return bucket.lower
        if bucket.upper <= bucket.lower:  # the first bucket, which ends at 0 or below
            return bucket.upper
        if bucket.within <= 0:
            return None
        share = (bucket.rank - bucket.below) / bucket.within
        return bucket.lower + (bucket.upper - bucket.lower) * share

    def quantile_text(
        self, q: float, written: Callable[[float], str], bound: Callable[[float], str]
    ) -> str:
        """The quantile for people: the bounds of its bucket, where a value between them would be
        invented: of few observations, where all are in that bucket, and in the first and the last
        one; ``-`` without observations.

        Args:
            q: the quantile.
            written: how a value is written.
            bound: how a bound is written.
        """
        bucket, value = self._bucket(q), self.quantile(q)
        if bucket is None or value is None:
            return "-"
        if bucket.upper == math.inf:
            return f">{bound(bucket.lower)}"
        if bucket.lower <= 0:
            return f"<{bound(bucket.upper)}"
        if self.count < _ENOUGH or bucket.within == self.count:
            return f"{bound(bucket.lower)}-{bound(bucket.upper)}"
        return written(value)

    def _bucket(self, q: float) -> _Bucket | None:
        """The bucket that the quantile is in; None without observations."""
        counts = list(accumulate((count for _, count in self.buckets), max))
        if len(counts) < 2 or counts[-1] <= 0:
            return None
        rank = q * counts[-1]
        # The infinite bucket is no candidate: what is not below it is in it.
        at = bisect_left(counts, rank, hi=len(counts) - 1)
        lower, below = (self.buckets[at - 1][0], counts[at - 1]) if at else (0.0, 0.0)
        return _Bucket(lower, self.buckets[at][0], rank, below, counts[at] - below)

    def plus(self, other: Histogram) -> Histogram:
        """Both together, as of two engines; bounds that only one has are left out."""
        return self._combined(other, 1.0)

    def minus(self, before: Histogram) -> Histogram:
        """What has come since ``before``, of the same server."""
        return self._combined(before, -1.0)

    def _combined(self, other: Histogram, sign: float) -> Histogram:
        there = dict(other.buckets)
        return Histogram(
            tuple(
                (bound, count + sign * there[bound])
                for bound, count in self.buckets
                if bound in there
            ),
            self.sum + sign * other.sum,
        )

    def to_json(self) -> dict[str, object]:
        """The document of a histogram: a JSON number is finite, so its last bucket is ``count``."""
        return {
            "count": exact(self.count),
            "sum": self.sum,
            "buckets": [[bound, exact(count)] for bound, count in self.buckets[:-1]],
        }


@dataclass(frozen=True, slots=True)
class _Bucket:
    """A bucket that a quantile is in.

    Attributes:
        lower: its lower bound.
        upper: its upper bound.
        rank: the quantile's place among all observations.
        below: observations in the buckets below it.
        within: observations in it.
    """

    lower: float
    upper: float
    rank: float
    below: float
    within: float


@dataclass(frozen=True, slots=True)
class KvCache:
    """The KV cache, as ``vllm:cache_config_info`` says; of several engines their caches together.

    Attributes:
        block_size: tokens of a block.
        blocks: blocks there are.
        tokens: tokens that it holds.
        dtype: type of its values; ``auto`` is the one that the model computes in.
        labels: all that the server says of the first engine's.
    """

    block_size: int | None = None
    blocks: int | None = None
    tokens: int | None = None
    dtype: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """What a server has counted, of all its engines: since its start, or in an interval. None is
    what it does not say.

    Attributes:
        prompt_tokens: tokens of prompts, those from the prefix cache included.
        cached_tokens: those of them that were not computed.
        prefix_queries: tokens that were looked for in the prefix cache.
        prefix_hits: those that were there.
        generation_tokens: generated tokens.
        preemptions: requests put back to make room in the KV cache.
        steps: the engines' steps.
        success: why a request has ended -> how many have.
        ttft: seconds to a request's first token, from its arrival at the server.
        inter_token: seconds between two tokens of a request.
        e2e: seconds to a request's last token.
        queue: seconds that a request waited.
    """

    prompt_tokens: float | None = None
    cached_tokens: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    generation_tokens: float | None = None
    preemptions: float | None = None
    steps: float | None = None
    success: Mapping[str, float] = field(default_factory=dict)
    ttft: Histogram | None = None
    inter_token: Histogram | None = None
    e2e: Histogram | None = None
    queue: Histogram | None = None

    @property
    def hit_rate(self) -> float | None:
        """Share of the tokens looked for that the prefix cache had; None if none were."""
        if not self.prefix_queries or self.prefix_hits is None:
            return None
        return self.prefix_hits / self.prefix_queries

    @property
    def computed_tokens(self) -> float | None:
        """Tokens of prompts that were computed; without a prefix cache, all."""
        if self.prompt_tokens is None:
            return None
        return max(self.prompt_tokens - (self.cached_tokens or 0.0), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval(Counters):
    """What was counted between two looks.

    Attributes:
        seconds: between them; after a new start, from it.
        restarted: whether the server was started between them: then the counts are those since.
    """

    seconds: float
    restarted: bool = False

    def rate(self, counted: float | None) -> float | None:
        """``counted`` a second."""
        return None if counted is None or self.seconds <= 0 else counted / self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineMetrics(Counters):
    """One look at a server.

    Attributes:
        at: when it was asked.
        running: requests that are computed.
        waiting: requests that wait.
        kv_use: share of the KV cache in use, of the engine with the most.
        kv_cache: the KV cache; None where the server says nothing of it.
        started: when the API server's process was started, in seconds since 1970. Engines are
            processes of their own.
        resident_bytes: its memory.
    """

    at: datetime
    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    kv_cache: KvCache | None = None
    started: float | None = None
    resident_bytes: float | None = None

    @classmethod
    def parse(cls, text: str, at: datetime, *, endpoint: str = "the endpoint") -> Self:
        """Read what a server answered to ``GET /metrics``.

        Args:
            text: the answer.
            at: when it was asked.
            endpoint: what errors call the server.

        Raises:
            ApiError: it is no text of that format, or not of a vLLM server.
        """
        counted = _Samples(text, endpoint)
        return cls(
            at=at,
            running=counted.sum(_RUNNING),
            waiting=counted.sum(_WAITING),
            kv_use=counted.largest(*_KV_USE),
            kv_cache=counted.kv_cache(),
            started=counted.largest("process_start_time_seconds"),
            resident_bytes=counted.sum("process_resident_memory_bytes"),
            prompt_tokens=counted.sum("vllm:prompt_tokens_total"),
            # The prefix cache also counts a request that is computed a second time.
            cached_tokens=counted.sum("vllm:prompt_tokens_cached_total", *_PREFIX_HITS),
            prefix_queries=counted.sum(*_PREFIX_QUERIES),
            prefix_hits=counted.sum(*_PREFIX_HITS),
            generation_tokens=counted.sum("vllm:generation_tokens_total"),
            preemptions=counted.sum("vllm:num_preemptions_total"),
            # A histogram, in spite of its name.
            steps=counted.sum("vllm:iteration_tokens_total_count"),
            success=counted.by("finished_reason", "vllm:request_success_total"),
            ttft=counted.histogram("vllm:time_to_first_token_seconds"),
            inter_token=counted.histogram(*_INTER_TOKEN),
            e2e=counted.histogram("vllm:e2e_request_latency_seconds"),
            queue=counted.histogram("vllm:request_queue_time_seconds"),
        )

    @property
    def began(self) -> datetime | None:
        """When the API server's process was started; None where it does not say, or names a time
        at which it cannot have been."""
        if self.started is None or not 0 < self.started < self.at.timestamp():
            return None
        return datetime.fromtimestamp(self.started, UTC)

    def since(self, before: EngineMetrics) -> Interval:
        """What was counted after ``before``, an earlier look at the same server.

        A counter that fell, or another start of the process, is a new start of the server: then
        all that it counts was counted after ``before``.
        """
        restarted = self._restarted(before)
        seconds = (self.at - before.at).total_seconds()
        if restarted and self.started is not None:
            seconds = min(max(self.at.timestamp() - self.started, 0.0), seconds)
        names = [each.name for each in fields(Counters)]
        if restarted:
            now = {name: getattr(self, name) for name in names}
            return Interval(seconds=seconds, restarted=True, **now)
        counted: dict[str, Any] = {
            name: _minus(getattr(self, name), getattr(before, name)) for name in names
        }
        return Interval(seconds=seconds, **counted)

    def _restarted(self, before: EngineMetrics) -> bool:
        if None not in (self.started, before.started) and self.started != before.started:
            return True
        return any(now < then for now, then in zip(_counts(self), _counts(before), strict=True))


def _counts(counters: Counters) -> Iterator[float]:
    """What falls only when the server starts again; not a number where it does not say."""
    for name in ("prompt_tokens", "generation_tokens", "preemptions", "steps", "prefix_queries"):
        count = getattr(counters, name)
        yield math.nan if count is None else count
    yield sum(counters.success.values())
    for histogram in (counters.ttft, counters.inter_token, counters.e2e, counters.queue):
        yield math.nan if histogram is None else histogram.count


def _minus(now: object, before: object) -> object:
    """What ``now`` has more than ``before``; None where one of them was not said."""
    if isinstance(now, Histogram) and isinstance(before, Histogram):
        return now.minus(before)
    if isinstance(now, Mapping) and isinstance(before, Mapping):
        return {key: count - before.get(key, 0.0) for key, count in now.items()}
    if isinstance(now, float) and isinstance(before, float):
        return now - before
    return None


class _Samples:
    """The samples of one text, by name.

    Args:
        text: the text.
        endpoint: what errors call the server.

    Raises:
        ApiError: as :meth:`EngineMetrics.parse`.
    """

    def __init__(self, text: str, endpoint: str) -> None:
        from prometheus_client.parser import text_string_to_metric_families

        if len(text) > MOST_BYTES or any(len(line) > _LONGEST_LINE for line in text.split("\n")):
            raise ApiError(f"The metrics of {endpoint} do not end.")
        self._by_name = defaultdict[str, list["Sample"]](list)
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    self._by_name[sample.name].append(sample)
        except (ValueError, LookupError, ArithmeticError) as error:
            raise ApiError(f"The metrics of {endpoint} are no text of Prometheus'.") from error
        if not any(name.startswith("vllm:") for name in self._by_name):
            raise ApiError(
                f"The metrics of {endpoint} have none of vLLM's: something else answers there."
            )

    def sum(self, *names: str) -> float | None:
        """The sum over the engines, by the first of ``names`` that the server knows."""
        found = self._values(names)
        return sum(found) if found else None

    def largest(self, *names: str) -> float | None:
        """The largest of the engines' values."""
        return max(self._values(names), default=None)

    def by(self, label: str, name: str) -> dict[str, float]:
        """The sum over the engines for each value of a label."""
        sums = dict[str, float]()
        for sample in self._by_name.get(name, ()):
            key, value = sample.labels.get(label, ""), _number(sample.value)
            if value is None or not re.fullmatch(r"\w{1,40}", key, re.ASCII):
                continue
            if key in sums or len(sums) < _MOST_KEYS:
                sums[key] = sums.get(key, 0.0) + value
        return sums

    def histogram(self, *names: str) -> Histogram | None:
        """The histogram of all engines; None where a part of it is missing or no number."""
        name = next((each for each in names if f"{each}_bucket" in self._by_name), "")
        engines = defaultdict[frozenset[tuple[str, str]], dict[float, float]](dict)
        for sample in self._by_name.get(f"{name}_bucket", ()):
            bound, value = _bound(sample.labels.get("le", "")), _number(sample.value)
            if bound is None or value is None:
                return None
            others = frozenset(pair for pair in sample.labels.items() if pair[0] != "le")
            counts = engines[others]
            counts[bound] = counts.get(bound, 0.0) + value
        total = self.sum(f"{name}_sum")
        if total is None or not engines or any(math.inf not in each for each in engines.values()):
            return None
        parts = (Histogram(tuple(sorted(counts.items())), 0.0) for counts in engines.values())
        whole = Histogram(reduce(Histogram.plus, parts).buckets, total)
        return whole if whole.sound else None

    def kv_cache(self) -> KvCache | None:
        """The KV cache of all engines."""
        engines = [sample.labels for sample in self._by_name.get(_CACHE_CONFIG, ())]
        if not engines:
            return None
        first = engines[0]
        dtype = first.get("cache_dtype", "")
        return KvCache(
            block_size=_whole(first, "block_size"),
            blocks=_together(_whole(each, "num_gpu_blocks") for each in engines),
            tokens=_together(_kv_tokens(each) for each in engines),
            dtype=dtype if re.fullmatch(r"\w{1,40}", dtype, re.ASCII) else "",
            labels=first,
        )

    def _values(self, names: tuple[str, ...]) -> list[float]:
        for name in names:
            samples = self._by_name.get(name)
            if samples:
                values = (_number(sample.value) for sample in samples)
                return [value for value in values if value is not None]
        return []


def exact(count: float | None) -> float | None:
    """``count`` as a JSON document has it: Prometheus has no integers, and this is one."""
    return int(count) if count is not None and count == int(count) else count


def _number(value: float) -> float | None:
    """A sample's value; None if nothing can have counted it, which no comparison with NaN says."""
    return float(value) if 0 <= value <= MOST else None


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return bound if _number(bound) is not None or bound == math.inf else None


def _whole(labels: Mapping[str, str], name: str) -> int | None:
    text = labels.get(name, "")
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _kv_tokens(labels: Mapping[str, str]) -> int | None:
    """Tokens that an engine's cache holds. Where layers look at fewer tokens than others, they are
    more than its blocks times their size, so the server's own figure comes first."""
    tokens = _whole(labels, "kv_cache_size_tokens")
    blocks, size = _whole(labels, "num_gpu_blocks"), _whole(labels, "block_size")
    if tokens is not None or blocks is None or size is None:
        return tokens
    return blocks * size


def _together(numbers: Iterator[int | None]) -> int | None:
    """Their sum; None if one is not known."""
    found = list(numbers)
    return None if None in found else sum(number or 0 for number in found)
