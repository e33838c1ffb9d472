"""What a stack file says about watching the endpoint: whether its metrics go to Cloud Monitoring,
and when an alert fires."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from tpuflex.duration import Duration, format_duration
from tpuflex.errors import Finding
from tpuflex.queued_resource.limits import PROJECT_PATTERN
from tpuflex.settings.base import Frozen, Remedy, bounded
from tpuflex.settings.policy_section import Usd

_DAY = (timedelta(days=1), "an alert may wait")
#: A time that a condition has to last.
Held = Annotated[Duration, bounded(least=(timedelta(seconds=10), "look twice"), most=_DAY)]
#: A time that something is counted in: Cloud Monitoring has a value a minute.
Window = Annotated[
    Duration, bounded(least=(timedelta(minutes=2), "have two values a minute apart"), most=_DAY)
]
#: Edges of vLLM's histogram of times to the first token, in seconds. All that comes later than the
#: last of them is one bucket.
TTFT_EDGES = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
FirstToken = Annotated[float, Field(gt=0, le=TTFT_EDGES[-1])]
#: Of an alert policy (https://cloud.google.com/monitoring/quotas).
MOST_CHANNELS = 16
NotificationChannel = Annotated[
    str,
    Field(pattern=rf"^projects/(?:{PROJECT_PATTERN}|[0-9]+)/notificationChannels/[0-9]+$"),
]
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
    """The limits beyond which alerts fire, wherever they are evaluated."""

    kv_use: Share = 0.85
    """Share of the KV cache in use, while requests wait or are preempted."""

    waiting_for: Held = timedelta(seconds=30)
    """How long requests wait."""

    first_token_slow: FirstToken = 0.8
    """Seconds to the first token that are slow. What counts is the smallest edge of vLLM's
    histogram that is no lower: 1 for 0.8."""

    first_token_very_slow: FirstToken = 2.0
    """Seconds to the first token for which somebody is paged. The edge for 2 is 2.5."""

    first_token_share: Share = 0.05
    """Share of the requests that may be slower than either limit. With 0.05 an alert fires about
    where the 95th percentile passes the limit."""

    first_token_long: Window = timedelta(minutes=30)
    """The long window. The share has to be exceeded in both windows."""

    first_token_short: Window = timedelta(minutes=5)
    """The short window. By it the alert clears soon after the cause is mended."""

    first_token_requests: int = Field(default=20, ge=1, le=1_000_000)
    """How many requests the long window must have for their share to count."""

    no_tokens_for: Window = timedelta(minutes=3)
    """How long no token is generated while requests are in flight."""

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

    alert_policies: bool = False
    """Whether the stack has a dashboard and an alert policy per rule in Cloud Monitoring, over what
    its hosts write there."""

    notification_channels: Annotated[
        tuple[NotificationChannel, ...],
        Remedy("Write projects/PROJECT/notificationChannels/NUMBER, at most 16 of them."),
    ] = Field(default=(), max_length=MOST_CHANNELS)
    """Your notification channels, `projects/PROJECT/notificationChannels/NUMBER`, which Google
    notifies when an incident of the policies opens and closes. They are neither made, changed nor
    deleted."""

    thresholds: AlertThresholds = AlertThresholds()
    """The limits beyond which alerts fire."""


def monitoring_findings(
    monitoring: MonitoringSettings, longest_run: timedelta | None
) -> Iterator[Finding]:
    """What cannot be honoured together, or with ``slice.max_run_duration``, where that is known."""
    yield from _policy_findings(monitoring)
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
    elif first_token_edge(limits.first_token_slow) == (
        edge := first_token_edge(limits.first_token_very_slow)
    ):
        yield Finding(
            f"{key}.first_token_slow",
            f"{limits.first_token_slow:g} s and first_token_very_slow"
            f" ({limits.first_token_very_slow:g} s) are the same to vLLM, which counts what takes"
            f" longer than {edge:g} s",
            f"Write {max((each for each in TTFT_EDGES if each < edge), default=edge):g} or less, or"
            f" more than {edge:g} there.",
        )
    ends = limits.run_ends_within
    if ends is not None and longest_run is not None and ends >= longest_run:
        yield Finding(
            f"{key}.run_ends_within",
            f"{format_duration(ends)} is not shorter than tpuflex:slice.max_run_duration"
            f" ({format_duration(longest_run)}): the alert would fire for the whole run",
            "Write less, or leave it out.",
        )


def first_token_edge(limit: float) -> float:
    """The smallest edge of vLLM's histogram that is no lower than ``limit``: what is above it is
    above the limit for certain."""
    return TTFT_EDGES[bisect_left(TTFT_EDGES, limit)]


def _policy_findings(monitoring: MonitoringSettings) -> Iterator[Finding]:
    channels = monitoring.notification_channels
    if monitoring.alert_policies and not monitoring.export_metrics:
        yield Finding(
            "tpuflex:monitoring.alert_policies",
            "its policies would look at metrics that tpuflex:monitoring.export_metrics: false keeps"
            " the hosts from writing",
            "Write export_metrics: true, or leave alert_policies out: `tpuflex alerts` judges the"
            " rules without Cloud Monitoring.",
        )
    if channels and not monitoring.alert_policies:
        yield Finding(
            "tpuflex:monitoring.notification_channels",
            "no policy of the stack would notify them",
            "Write alert_policies: true, or leave them out.",
        )
    if twice := [each for each in dict.fromkeys(channels) if channels.count(each) > 1]:
        yield Finding(
            "tpuflex:monitoring.notification_channels",
            f"{twice[0]} stands there twice",
            "Write it once.",
        )
