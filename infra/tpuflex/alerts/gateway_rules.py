"""The alert rules of a gateway, over what it counts itself: what clients get, whichever slice
serves them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

from tpuflex.advice import Advice
from tpuflex.alerts.conditions import AllOf, Compared, Increase, ShareAbove, ShareOf
from tpuflex.alerts.rules import SETTLED_FOR, AlertRule, Severity, percent
from tpuflex.alerts.signals import UP, Kind, Signal
from tpuflex.duration import format_duration
from tpuflex.settings.gateway import ClassSettings
from tpuflex.settings.monitoring import AlertThresholds

#: What the names of a gateway's metrics begin with.
PREFIX = "tpuflex_gateway_"
#: Edges of its histogram of times to the first token, in seconds: those that promises are made
#: about are among them.
FIRST_TOKEN_EDGES = (0.1, 0.25, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 10.0, 30.0)
#: How long a breaker may be open while requests come.
_OPEN_FOR = timedelta(minutes=10)

FIRST_TOKENS = Signal("first_tokens", Kind.HISTOGRAM, f"{PREFIX}time_to_first_token_seconds")
#: Those that could be answered: neither wrong themselves, nor beyond what their client may use.
REQUESTS = Signal(
    "requests", Kind.COUNTER, f"{PREFIX}requests_total", where=(("status", "200|499|5.."),)
)
FAILED = Signal(
    "failed_requests",
    Kind.COUNTER,
    f"{PREFIX}failed_requests_total",
    words=("failed request", "failed requests"),
)
#: Of the model that has the fewest.
OPEN_UPSTREAMS = Signal("open_upstreams", Kind.GAUGE, f"{PREFIX}open_upstreams", merge="min")
#: Of the upstream and the class for which it is worst.
PACE = Signal("first_token_pace", Kind.GAUGE, f"{PREFIX}first_token_pace", merge="max")


def gateway_rules(
    classes: Mapping[str, ClassSettings], limits: AlertThresholds, status: Advice
) -> tuple[AlertRule, ...]:
    """The rules for a gateway.

    Those on first tokens are about classes whose ``very_slow`` is no later than that of
    ``limits``: others are promised no such time.

    Args:
        classes: its classes of requests, by name.
        limits: the thresholds.
        status: the command that shows how it is.
    """
    share, requests = limits.first_token_share, limits.first_token_requests
    windows = (limits.first_token_long, limits.first_token_short)
    slow, very_slow = _edge(limits.first_token_slow), _edge(limits.first_token_very_slow)
    promised = sorted(
        name for name, rules in classes.items() if rules.first_token.very_slow <= very_slow
    )
    first_tokens = replace(FIRST_TOKENS, where=(("class", "|".join(promised)),))
    shows = Advice("`{command}` shows how late and how full each upstream is.", command=status)

    def too_late(name: str, severity: Severity, edge: float) -> AlertRule:
        shares = (ShareAbove(first_tokens, edge, share, window) for window in windows)
        return AlertRule(
            name,
            severity,
            f"More than {percent(share)} of the requests through the gateway wait longer than"
            f" {edge:g} s for their first token, once an upstream has them.",
            AllOf((Increase(first_tokens, ">=", requests, windows[0]), *shares)),
            SETTLED_FOR,
            "slow-first-token",
            shows,
        )

    first_token_rules = (
        too_late("GatewayFirstTokenSlow", "ticket", slow),
        too_late("GatewayFirstTokenVerySlow", "page", very_slow),
    )
    shares_failed = (ShareOf(FAILED, REQUESTS, share, window) for window in windows)
    return (
        *(first_token_rules if promised else ()),
        AlertRule(
            "GatewayRefuses",
            "page",
            f"More than {percent(share)} of the requests are refused by the gateway for want of"
            " room, or fail at their upstream.",
            AllOf((Increase(REQUESTS, ">=", requests, windows[0]), *shares_failed)),
            SETTLED_FOR,
            "gateway-refuses",
            Advice("`{command}` shows why, by class and reason.", command=status),
        ),
        AlertRule(
            "GatewayNoUpstream",
            "page",
            f"A model has had no open upstream for {format_duration(limits.down_for)}.",
            Compared(OPEN_UPSTREAMS, "<", 1),
            limits.down_for,
            "gateway-no-upstream",
            Advice("`{command}` shows which model, and its upstreams.", command=status),
        ),
        AlertRule(
            "GatewayBreakerOpen",
            "ticket",
            "Requests come, and a breaker has been open for"
            f" {format_duration(_OPEN_FOR)}: an upstream's first tokens are late.",
            AllOf((Compared(PACE, ">", 0), Increase(REQUESTS, ">", 0, _OPEN_FOR))),
            _OPEN_FOR,
            "slow-first-token",
            shows,
        ),
        AlertRule(
            "GatewayDown",
            "page",
            f"The gateway has not answered for {format_duration(limits.down_for)}.",
            Compared(UP, "<", 1),
            limits.down_for,
            "gateway-down",
            Advice("`{command}` says whether it answers on its own machine.", command=status),
        ),
    )


def _edge(limit: float) -> float:
    """The smallest edge that is no lower than ``limit``, or the last one."""
    return FIRST_TOKEN_EDGES[min(bisect_left(FIRST_TOKEN_EDGES, limit), len(FIRST_TOKEN_EDGES) - 1)]
