"""Benchmarks for tests, with figures of a plausible shape."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

from tpuflex.measure.run import (
    Ceilings,
    Counted,
    Load,
    Measured,
    Point,
    Quantiles,
    Run,
    Server,
)

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
SERVER = Server(
    model="google/gemma-4-31b-it",
    catalog_model="gemma-4-31b",
    vllm="0.32.0",
    image="vllm/vllm-tpu@sha256:" + "ab" * 32,
    accelerator="v6e-4",
    chips=4,
    zone="us-east5-b",
    kv_tokens=262_144,
    block_size=32,
    max_model_len=32_768,
    max_num_seqs=256,
    args=("--kv-cache-dtype", "fp8"),
    usd_per_hour=Decimal("5.40"),
    price_source="https://cloud.google.com/tpu/pricing, read 2026-11-28",
)


def load(concurrency: int, context: int, shared: int = 0, output: int = 128) -> Load:
    """A load of four requests for each user."""
    return Load(
        concurrency=concurrency,
        context=context,
        output=output,
        requests=4 * concurrency,
        shared=shared,
    )


def around(seconds: float) -> Quantiles:
    """Quantiles whose mean is ``seconds``."""
    return Quantiles(
        mean=seconds,
        p50=seconds * 0.95,
        p90=seconds * 1.2,
        p95=seconds * 1.3,
        p99=seconds * 1.5,
        max=seconds * 1.6,
    )


def measured(what: Load, speed: float = 1.0) -> Measured:
    """What a server measures that is ``speed`` times as fast as another one."""
    step = (0.02 + what.concurrency * (what.context / 4e7 + 5e-5)) / speed
    ttft = (0.05 + what.concurrency * what.context / 59_000 / 4) / speed
    latency = ttft + step * what.output
    rate = what.concurrency / latency
    return Measured(
        seconds=what.requests / rate,
        completed=what.requests,
        requests_per_second=rate,
        output_per_second=rate * what.output,
        prompt_per_second=rate * (what.context - what.shared),
        ttft=around(ttft),
        inter_token=around(step),
        latency=around(latency),
        little=1.0,
        counted=Counted(
            prompt_tokens=what.requests * what.context,
            cached_tokens=what.requests * what.shared,
            output_tokens=what.requests * what.output,
        ),
        generator_lag=0.01,
        generator_busy=0.2,
    )


def point(what: Load, speed: float = 1.0) -> Point:
    """A result, or a point that cannot fit the cache."""
    if what.concurrency * (what.context + what.output) > 262_144:
        need = what.concurrency * (what.context + what.output)
        return Point(
            load=what,
            verdict="not_feasible",
            reasons=(f"it needs {need:,} tokens of KV cache, and there are 262,144",),
        )
    figures = measured(what, speed)
    return Point(
        load=what,
        verdict="result",
        measured=figures,
        ceilings=Ceilings(
            prompt_per_second=59_200,
            output_per_second=min(52.0 * what.concurrency, 12_000),
            first_token=what.context / 59_200,
        ),
        usd_per_million=Decimal(round(5.4 / 3600 / figures.output_per_second * 1e6, 4)),
        at=NOON,
    )


def run(*loads: Load, name: str = "prod", server: Server = SERVER) -> Run:
    """A run of ``loads``."""
    return Run(
        id=f"{name}-20261128T120000Z",
        name=name,
        started=NOON,
        stack="prod",
        stack_hash="cd" * 32,
        server=server,
        generator="vllm bench serve 0.32.0",
        command=("vllm", "bench", "serve", "--dataset-name", "random"),
        tpuflex="0.1.0",
        loads=loads,
    )
