"""What a stack file says about watching the endpoint: when an alert fires."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from tpuflex.duration import Duration, format_duration
from tpuflex.errors import Finding
from tpuflex.settings.base import Frozen
from tpuflex.settings.policy_section import Usd

#: A time that a condition has to last. Whoever watches looks a few times in it.
Held = Annotated[Duration, Field(ge=timedelta(seconds=10), le=timedelta(days=1))]
#: A time that something is counted in. Cloud Monitoring has a value a minute.
Window = Annotated[Duration, Field(ge=timedelta(minutes=2), le=timedelta(days=1))]
#: vLLM counts no first token apart that comes later than the last of its edges.
FirstToken = Annotated[float, Field(gt=0, le=2560)]
Share = Annotated[float, Field(gt=0, lt=1)]


class PhaseLimits(Frozen):
    """How long a host may stay in each phase of its boot before an alert fires. How long it may say
    nothing at all is slice.timeouts.first_report."""

    config: Held = timedelta(minutes=2)
    """Reading what to serve."""

    capacity: Held = timedelta(minutes=2)
    """Checking that the weights have room."""

    secrets: Held = timedelta(minutes=5)
    """Reading the secrets."""

    fetch: Held = timedelta(minutes=30)
    """Fetching image and weights."""

    container: Held = timedelta(minutes=10)
    """Starting the container."""

    health: Held = timedelta(minutes=40)
    """Loading weights and compiling, until vLLM's `/health` answers."""

    completion: Held = timedelta(minutes=10)
    """Serving the first completion."""

    warmup: Held = timedelta(minutes=20)
    """Warming up, where serving.warmup is set."""


class AlertThresholds(Frozen):
    """From where on alerts fire, wherever they are evaluated."""

    kv_use: Share = 0.85
    """Share of the KV cache in use, while requests wait or are preempted."""

    waiting_for: Held = timedelta(seconds=30)
    """How long requests wait."""

    first_token_slow: FirstToken = 0.8
    """Seconds to the first token that are slow. What counts is the smallest edge of vLLM's
    histogram that is no lower: 1 for 0.8."""

    first_token_very_slow: FirstToken = 2.0
    """Seconds to the first token that wake somebody. The edge for 2 is 2.5."""

    first_token_share: Share = 0.05
    """Share of the requests that may be slower, and of those that may be much slower. With 0.05 an
    alert fires about where the 95th percentile passes the limit."""

    first_token_long: Window = timedelta(minutes=30)
    """The long window that the share must be exceeded in, and the short one too."""

    first_token_short: Window = timedelta(minutes=5)
    """The short window, by which the alert clears soon after the cause is mended."""

    first_token_requests: int = Field(default=20, ge=1, le=1_000_000)
    """Requests in the long window without which their share says nothing."""

    no_tokens_for: Window = timedelta(minutes=3)
    """How long no token is generated while requests run."""

    down_for: Held = timedelta(minutes=1)
    """How long the server does not answer."""

    phases: PhaseLimits = PhaseLimits()
    """How long a host may stay in each phase of its boot."""

    run_ends_within: Duration | None = None
    """How much is left of a run that has no successor; by default 6h, or a quarter of
    slice.max_run_duration where that is less."""

    cost_usd: Usd | None = None
    """US dollars that the run's chips have cost; by default budget.per_run_usd, and without it what
    they cost for all of slice.max_run_duration."""


class MonitoringSettings(Frozen):
    """How the endpoint is watched."""

    export_metrics: bool = True
    """Whether the hosts write what their server counts to Cloud Monitoring, eleven series once a
    minute, as `workload.googleapis.com/vllm/…`. A host writes 7 MiB in a month; Google charges
    nothing for the first 150 MiB of a billing account."""

    thresholds: AlertThresholds = AlertThresholds()
    """From where on alerts fire."""


def monitoring_findings(monitoring: MonitoringSettings) -> Iterator[Finding]:
    """What of the thresholds cannot be honoured together."""
    limits, key = monitoring.thresholds, "tpuflex:monitoring.thresholds"
    if limits.first_token_short >= limits.first_token_long:
        yield Finding(
            f"{key}.first_token_short",
            f"{format_duration(limits.first_token_short)} is not shorter than first_token_long"
            f" ({format_duration(limits.first_token_long)})",
            "Write a sixth of it or so.",
        )
    if limits.first_token_slow >= limits.first_token_very_slow:
        yield Finding(
            f"{key}.first_token_slow",
            f"{limits.first_token_slow:g} s is not less than first_token_very_slow"
            f" ({limits.first_token_very_slow:g} s)",
            "Write less, or more there.",
        )
