"""Snapshots of servers that count as they are told to."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from tpuflex.measure.archive import Origin, Snapshot
from tpuflex.measure.metrics import EngineMetrics, Histogram, KvCache

BEGIN = datetime(2026, 11, 29, 10, 0, tzinfo=UTC)
ORIGIN = Origin(
    stack="prod",
    slice="projects/p/locations/us-east5-a/nodes/prod-g1",
    zone="us-east5-a",
    accelerator="v6e-4",
    model="google/gemma-4-31B-it",
    vllm="0.32.0",
    settings_hash="00ff",
    max_model_len=16_384,
    max_num_seqs=32,
)
BOUNDS = (0.1, 0.5, 1.0, math.inf)


def histogram(*counts: float, total: float = 0.0) -> Histogram:
    """Observations up to each of :data:`BOUNDS`."""
    return Histogram(tuple(zip(BOUNDS, counts, strict=True)), total)


def metrics(at: datetime, **counted: object) -> EngineMetrics:
    """A look at a server that has counted nothing but what is given."""
    idle = EngineMetrics(
        at=at,
        running=0.0,
        waiting=0.0,
        kv_use=0.0,
        prompt_tokens=0.0,
        cached_tokens=0.0,
        prefix_queries=0.0,
        prefix_hits=0.0,
        generation_tokens=0.0,
        preemptions=0.0,
        steps=0.0,
        started=BEGIN.timestamp() - 3600,
        kv_cache=KvCache(128, 781, 100_000, "bfloat16"),
        success={"stop": 0.0},
        ttft=histogram(0, 0, 0, 0),
        inter_token=histogram(0, 0, 0, 0),
        e2e=histogram(0, 0, 0, 0),
        queue=histogram(0, 0, 0, 0),
    )
    return replace(idle, **counted)  # type: ignore[arg-type]


def snapshot(minute: float, origin: Origin = ORIGIN, **counted: object) -> Snapshot:
    """The look so many minutes after :data:`BEGIN`."""
    at = BEGIN + timedelta(minutes=minute)
    return Snapshot(at=at, origin=origin, metrics=metrics(at, **counted))


def unanswered(minute: float, why: str, origin: Origin = ORIGIN) -> Snapshot:
    """A look that nothing came of."""
    return Snapshot(at=BEGIN + timedelta(minutes=minute), origin=origin, gap=why)


@dataclass
class Server:
    """A server that serves the same in each minute.

    Attributes:
        running: requests that run.
        waiting: requests that wait.
        kv_use: share of its cache in use.
        origin: whose it is.
        computed: tokens of prompts that it computes in a minute; it generates as many.
        every: minutes between two snapshots.
    """

    running: float = 0.0
    waiting: float = 0.0
    kv_use: float = 0.0
    origin: Origin = ORIGIN
    computed: float = 6000.0
    every: int = 1

    def minutes(self, count: int, first: int = 0) -> list[Snapshot]:
        """Its snapshots of so many minutes."""
        origin = replace(self.origin, interval=60 * self.every)
        return [
            snapshot(
                minute,
                origin,
                running=self.running,
                waiting=self.waiting,
                kv_use=self.kv_use,
                prompt_tokens=self.computed * minute,
                generation_tokens=self.computed * minute,
                success={"stop": float(minute)},
                ttft=histogram(0, minute, minute, minute),
            )
            for minute in range(first, first + count, self.every)
        ]
