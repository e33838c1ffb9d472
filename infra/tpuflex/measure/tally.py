"""What was served over time, from snapshots of what a server counts.

A gap is no zero: where a server was not asked, or did not answer, nothing is known of its load,
while what it has counted meanwhile is in its counters. Snapshots see what happens between them in
counters and histograms alone, so peaks of what runs and waits are those of the snapshots.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

from tpuflex.measure.metrics import Histogram, Interval

if TYPE_CHECKING:
    from tpuflex.measure.archive import Snapshot

#: KV use above which a cache counts as full: the next long prompts wait, or put others back.
FULL = 0.85
#: Snapshots further apart than so many of their intervals have a gap between them.
_APART = 2.5
#: Seconds of the finest parts of the time line, and the lengths that they are put together to.
_FINEST = 600
_WIDTHS = (600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86_400, 7 * 86_400)
#: Parts of the time line, at most.
_MOST_PARTS = 200
QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True)
class Gap:
    """A time of which nothing is known.

    Attributes:
        begin: the last snapshot before it.
        end: the first one after it, or the last without an answer.
        why: why the server did not answer, or that nobody asked.
    """

    begin: datetime
    end: datetime
    why: str

    def to_json(self) -> dict[str, object]:
        """The gap in a JSON document."""
        return {"begin": self.begin.isoformat(), "end": self.end.isoformat(), "why": self.why}


@dataclass(slots=True)
class Use:
    """What was served in a length of time.

    Attributes:
        begin: its beginning.
        snapshots: snapshots with an answer.
        watched: seconds between them without the gaps.
        busy: those of them in which requests ran.
        waited: those in which requests waited.
        full: those in which the KV cache was full (:data:`FULL`).
        billed: seconds in which the slice was there.
        computed: tokens of prompts that were computed, in gaps, too.
        cached: tokens of prompts that the prefix cache had.
        generated: generated tokens.
        requests: requests that have ended.
        preemptions: requests that were put back to make room.
        concurrency: running and waiting requests together -> snapshots.
        peak_at: when they were most.
        ttft: times to the first token.
        inter_token: times between two tokens.
    """

    begin: datetime
    snapshots: int = 0
    watched: float = 0.0
    busy: float = 0.0
    waited: float = 0.0
    full: float = 0.0
    billed: float = 0.0
    computed: float = 0.0
    cached: float = 0.0
    generated: float = 0.0
    requests: float = 0.0
    preemptions: float = 0.0
    concurrency: Counter[int] = field(default_factory=Counter)
    peak_at: datetime | None = None
    ttft: Histogram | None = None
    inter_token: Histogram | None = None

    @property
    def peak(self) -> int | None:
        """Most requests at once; None without a snapshot."""
        return max(self.concurrency, default=None)

    @property
    def p95(self) -> int | None:
        """Requests at once that 95 of 100 snapshots do not exceed, by the nearest rank."""
        rank = math.ceil(0.95 * self.concurrency.total())
        for requests in sorted(self.concurrency):
            rank -= self.concurrency[requests]
            if rank <= 0:
                return requests
        return None

    def add(self, step: Step) -> None:
        """Count a step in."""
        now, counted = step.snapshot, step.counted
        self.billed += step.billed
        if now.metrics is not None:
            requests = round((now.metrics.running or 0) + (now.metrics.waiting or 0))
            if self.peak is None or requests > self.peak:
                self.peak_at = now.at
            self.snapshots += 1
            self.concurrency[requests] += 1
            self.watched += step.watched
            self.busy += step.watched if now.metrics.running else 0
            self.waited += step.watched if now.metrics.waiting else 0
            self.full += step.watched if (now.metrics.kv_use or 0) > FULL else 0
        if counted is not None:
            self.computed += counted.computed_tokens or 0
            self.cached += counted.cached_tokens or 0
            self.generated += counted.generation_tokens or 0
            self.requests += sum(counted.success.values())
            self.preemptions += counted.preemptions or 0
            self.ttft = _merged(self.ttft, counted.ttft)
            self.inter_token = _merged(self.inter_token, counted.inter_token)

    def to_json(self) -> dict[str, object]:
        """The use in a JSON document."""
        return {
            "begin": self.begin.isoformat(),
            "snapshots": self.snapshots,
            "watched_hours": hours(self.watched),
            "busy_hours": hours(self.busy),
            "waited_hours": hours(self.waited),
            "full_hours": hours(self.full),
            "billed_hours": hours(self.billed),
            "prompt_tokens_computed": round(self.computed),
            "prompt_tokens_cached": round(self.cached),
            "generated_tokens": round(self.generated),
            "requests": round(self.requests),
            "preemptions": round(self.preemptions),
            "peak_concurrency": self.peak,
            "peak_at": None if self.peak_at is None else self.peak_at.isoformat(),
            "p95_concurrency": self.p95,
            "ttft_seconds": quantiles(self.ttft),
            "inter_token_seconds": quantiles(self.inter_token),
        }


def quantiles(histogram: Histogram | None) -> dict[str, float | None]:
    """The quantiles of ``histogram``, as Prometheus computes them; None for none."""
    return {
        name: None if histogram is None else histogram.quantile(q) for name, q in QUANTILES.items()
    }


@dataclass(frozen=True, slots=True)
class Step:
    """From one snapshot to the next.

    Attributes:
        snapshot: the later one.
        watched: seconds between the two; 0 with a gap between them.
        billed: seconds in which a slice was there.
        counted: what was counted since the last answer; None without an earlier or a later one.
        gap: the gap between them, if there is one.
    """

    snapshot: Snapshot
    watched: float = 0.0
    billed: float = 0.0
    counted: Interval | None = None
    gap: Gap | None = None


def steps(snapshots: Iterable[Snapshot]) -> Iterator[Step]:
    """The steps between ``snapshots``; one that is not later than the one before it is left out."""
    before = answered = None
    for now in snapshots:
        if before is None:
            yield Step(now)
        elif now.at > before.at:
            yield _step(before, answered, now)
        else:
            continue
        before = now
        answered = now if now.metrics is not None else answered


def _step(before: Snapshot, answered: Snapshot | None, now: Snapshot) -> Step:
    seconds = (now.at - before.at).total_seconds()
    recorded = seconds <= _APART * max(before.origin.interval, now.origin.interval)
    counted = None
    if answered is not None and answered.metrics is not None and now.metrics is not None:
        counted = now.metrics.since(answered.metrics)
    billed = 0.0
    if recorded and now.origin.slice:
        billed = seconds
    elif counted is not None:  # nobody asked, and the server has run all the same
        billed = min(seconds, counted.seconds)
    if recorded and before.metrics is not None and now.metrics is not None:
        return Step(now, watched=seconds, billed=billed, counted=counted)
    why = (now.gap or before.gap) if recorded else "not recorded"
    return Step(now, billed=billed, counted=counted, gap=Gap(before.at, now.at, why))


def _merged(one: Histogram | None, other: Histogram | None) -> Histogram | None:
    return one.plus(other) if one is not None and other is not None else one or other


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks:
    """What the slice was asked for at most.

    Attributes:
        running: sequences that were computed at once.
        kv_use: share of the KV cache in use.
        kv_at: when that was.
        kv_tokens: tokens that it held then; None where the server does not say its size.
        cache_tokens: tokens that it can hold.
        kv_dtype: type of its values.
        computed: tokens of prompts and answers computed in a second, between two snapshots.
        generated: tokens generated in a second.
    """

    running: int = 0
    kv_use: float | None = None
    kv_at: datetime | None = None
    kv_tokens: int | None = None
    cache_tokens: int | None = None
    kv_dtype: str = ""
    computed: float = 0.0
    generated: float = 0.0

    def with_step(self, step: Step) -> Peaks:
        """These with what a step shows."""
        now, counted = step.snapshot.metrics, step.counted
        if now is None:
            return self
        peaks = replace(self, running=max(self.running, round(now.running or 0)))
        if now.kv_use is not None and (self.kv_use is None or now.kv_use > self.kv_use):
            size = None if now.kv_cache is None else now.kv_cache.tokens
            peaks = replace(
                peaks,
                kv_use=now.kv_use,
                kv_at=now.at,
                kv_tokens=None if size is None else math.ceil(now.kv_use * size),
                cache_tokens=size,
                kv_dtype="" if now.kv_cache is None else now.kv_cache.dtype,
            )
        if counted is None or not step.watched:
            return peaks
        generated = (counted.generation_tokens or 0) / step.watched
        computed = generated + (counted.computed_tokens or 0) / step.watched
        return replace(
            peaks,
            computed=max(peaks.computed, computed),
            generated=max(peaks.generated, generated),
        )

    def to_json(self) -> dict[str, object]:
        """The peaks in a JSON document."""
        return {
            "running": self.running,
            "kv_use": self.kv_use,
            "kv_use_at": None if self.kv_at is None else self.kv_at.isoformat(),
            "kv_tokens": self.kv_tokens,
            "cache_tokens": self.cache_tokens,
            "computed_tokens_per_second": round(self.computed, 1),
            "generated_tokens_per_second": round(self.generated, 1),
        }


@dataclass(frozen=True, slots=True)
class Moment:
    """A snapshot in the time line; all of it None in a gap.

    Attributes:
        at: when.
        running: requests that run.
        waiting: requests that wait.
        kv_use: share of the KV cache in use.
        computed: tokens of prompts computed in a second, since the snapshot before.
        generated: tokens generated in a second.
    """

    at: datetime
    running: float | None = None
    waiting: float | None = None
    kv_use: float | None = None
    computed: float | None = None
    generated: float | None = None

    @classmethod
    def of(cls, step: Step) -> Moment:
        """The end of a step."""
        now, counted = step.snapshot.metrics, step.counted
        if now is None:
            return cls(step.snapshot.at)
        computed = generated = None
        if counted is not None and step.watched:
            computed = (counted.computed_tokens or 0) / step.watched
            generated = (counted.generation_tokens or 0) / step.watched
        return cls(now.at, now.running, now.waiting, now.kv_use, computed, generated)


class Tally:
    """What was served on one slice, added up step by step."""

    def __init__(self, begin: datetime) -> None:
        self.begin = self.end = begin
        self.total = Use(begin)
        self.days: dict[date, Use] = {}
        self.parts: dict[int, Use] = {}
        self.moments: list[Moment] = []
        self.gaps: list[Gap] = []
        self.peaks = Peaks()

    def add(self, step: Step) -> None:
        """Count a step in."""
        now = step.snapshot
        self.end = now.at
        day = now.at.astimezone(UTC).date()
        midnight = datetime.combine(day, datetime.min.time(), UTC)
        part = int(now.at.timestamp()) // _FINEST
        start = datetime.fromtimestamp(part * _FINEST, UTC)
        for use in (
            self.total,
            self.days.setdefault(day, Use(midnight)),
            self.parts.setdefault(part, Use(start)),
        ):
            use.add(step)
        self.peaks = self.peaks.with_step(step)
        if step.gap is not None:
            self._add_gap(step.gap)
        if now.metrics is not None:
            self.moments.append(Moment.of(step))

    def _add_gap(self, gap: Gap) -> None:
        self.moments.append(Moment(gap.begin))
        if self.gaps and self.gaps[-1].end == gap.begin and self.gaps[-1].why == gap.why:
            self.gaps[-1] = replace(self.gaps[-1], end=gap.end)
        else:
            self.gaps.append(gap)


def timeline(parts: Sequence[Use]) -> tuple[Use, ...]:
    """``parts``, put together until they are few enough to look at."""
    if not parts:
        return ()
    span = (parts[-1].begin - parts[0].begin).total_seconds()
    width = next((each for each in _WIDTHS if span / each <= _MOST_PARTS), _WIDTHS[-1])
    wider: dict[int, Use] = {}
    for part in parts:
        number = int(part.begin.timestamp()) // width
        start = datetime.fromtimestamp(number * width, UTC)
        wider[number] = (
            _together(wider[number], part) if number in wider else replace(part, begin=start)
        )
    return tuple(wider.values())


def _together(one: Use, other: Use) -> Use:
    sums = (
        *("snapshots", "watched", "busy", "waited", "full", "billed", "computed", "cached"),
        *("generated", "requests", "preemptions"),
    )
    later = (other.peak or 0) > (one.peak or 0)
    return replace(
        one,
        **{name: getattr(one, name) + getattr(other, name) for name in sums},
        concurrency=one.concurrency + other.concurrency,
        peak_at=other.peak_at if later else one.peak_at,
        ttft=_merged(one.ttft, other.ttft),
        inter_token=_merged(one.inter_token, other.inter_token),
    )


def hours(seconds: float) -> float:
    """Seconds in hours, as they are shown."""
    return round(seconds / 3600, 2)
