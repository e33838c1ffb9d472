"""The alert rules as data: one row each, with the thresholds of a stack file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from tpuflex.advice import Advice
from tpuflex.alerts.conditions import (
    AllOf,
    AnyOf,
    Compared,
    Condition,
    Increase,
    ShareAbove,
    signals_of,
)
from tpuflex.alerts.signals import (
    BILLED_NODES,
    GENERATED,
    IN_FLIGHT,
    KV_USE,
    PHASE_SECONDS,
    PREEMPTIONS,
    RUN_SECONDS_LEFT,
    SLICES,
    SPENT_USD,
    SUCCESSORS,
    TTFT,
    UP,
    WAITING,
)
from tpuflex.duration import format_duration
from tpuflex.planning.cost import run_cost
from tpuflex.settings.model import StackSettings
from tpuflex.settings.monitoring import first_token_edge

Severity = Literal["page", "ticket"]

#: The time in which preemptions count, and for which the KV cache has to be full.
_PREEMPTED_IN = timedelta(minutes=5)
_FULL_FOR = timedelta(minutes=1)
#: How long a count over a window has to stay the same: the first looks at a server have no past.
_STILL_FOR = timedelta(minutes=1)
#: The same of a share: what `rate` adds to a counter's first samples is half of what comes between
#: two of them, so that after ten it is below 5 %.
SETTLED_FOR = timedelta(minutes=2)
#: A run ends soon when so much of it is left, or a quarter of it where that is less.
_RUN_ENDS_WITHIN = timedelta(hours=6)
_PART_OF_A_RUN = 4


@dataclass(frozen=True, slots=True)
class AlertRule:
    """One rule.

    Attributes:
        name: its name, as Prometheus' alerts are called.
        severity: whether somebody is woken, or looks at it during the day.
        summary: what is so when it fires, in one sentence.
        condition: when it fires.
        held: how long that has to be so.
        runbook: page of ``docs/runbooks`` about it, without ``.md``.
        next: the command to type next, and what it does.
        in_cloud: the condition in Cloud Monitoring, where it is another one than ``condition``.
    """

    name: str
    severity: Severity
    summary: str
    condition: Condition
    held: timedelta
    runbook: str
    next: Advice
    in_cloud: Condition | None = None

    @property
    def cloud_condition(self) -> Condition | None:
        """The condition in Cloud Monitoring; None where hosts write too little for it."""
        condition = self.in_cloud or self.condition
        return condition if all(each.cloud for each in signals_of(condition)) else None

    @property
    def prometheus_condition(self) -> Condition | None:
        """The condition for a Prometheus that collects from the server; None where that says too
        little for it."""
        asked = signals_of(self.condition)
        return self.condition if all(each.prometheus for each in asked) else None


def alert_rules(settings: StackSettings) -> tuple[AlertRule, ...]:
    """The rules for the stack of ``settings``."""
    limits = settings.monitoring.thresholds
    ends_within = _run_ends_within(settings)
    phases = {
        "silence": settings.slice.timeouts.first_report,
        **{name: getattr(limits.phases, name) for name in type(limits.phases).model_fields},
    }
    share, requests = limits.first_token_share, limits.first_token_requests
    slow = first_token_edge(limits.first_token_slow)
    very_slow = first_token_edge(limits.first_token_very_slow)

    def burn_rate(edge: float) -> Condition:
        """The share is exceeded in a long window, so that it matters, and in a short one, so that
        it still does."""
        long, short = limits.first_token_long, limits.first_token_short
        windows = (ShareAbove(TTFT, edge, share, window) for window in (long, short))
        return AllOf((Increase(TTFT, ">=", requests, long), *windows))

    left = Compared(RUN_SECONDS_LEFT, "<", ends_within.total_seconds())
    return (
        AlertRule(
            "KvCacheFull",
            "ticket",
            f"More than {percent(limits.kv_use)} of the KV cache is in use, and requests wait or"
            " are preempted.",
            AllOf(
                (
                    Compared(KV_USE, ">", limits.kv_use),
                    AnyOf(
                        (
                            Compared(WAITING, ">", 0),
                            Increase(PREEMPTIONS, ">", 0, _PREEMPTED_IN),
                        )
                    ),
                )
            ),
            _FULL_FOR,
            "kv-cache-full",
            Advice("`{metrics} --watch` shows whether ever more requests are preempted."),
        ),
        AlertRule(
            "RequestsWaiting",
            "ticket",
            f"Requests have waited for {format_duration(limits.waiting_for)}.",
            Compared(WAITING, ">", 0),
            limits.waiting_for,
            "requests-waiting",
            Advice("`{metrics} --watch` shows whether they get fewer."),
        ),
        AlertRule(
            "FirstTokenSlow",
            "ticket",
            f"More than {percent(share)} of the requests wait longer than {slow:g} s for their"
            " first token.",
            burn_rate(slow),
            SETTLED_FOR,
            "slow-first-token",
            Advice("`{metrics} --watch` shows whether they wait in the queue."),
        ),
        AlertRule(
            "FirstTokenVerySlow",
            "page",
            f"More than {percent(share)} of the requests wait longer than {very_slow:g} s for"
            " their first token.",
            burn_rate(very_slow),
            SETTLED_FOR,
            "slow-first-token",
            Advice("`{metrics} --watch` shows whether they wait in the queue."),
        ),
        AlertRule(
            "NoTokens",
            "page",
            "Requests are in flight, and no token was generated in"
            f" {format_duration(limits.no_tokens_for)}.",
            AllOf(
                (
                    Compared(IN_FLIGHT, ">", 0, throughout=limits.no_tokens_for),
                    Increase(GENERATED, "==", 0, limits.no_tokens_for),
                    # Of a server that has ended, the window has its last samples alone.
                    Compared(UP, "==", 1, throughout=limits.no_tokens_for),
                )
            ),
            _STILL_FOR,
            "frozen-engine",
            Advice("`{verify}` says whether the engine is frozen; `{restart}` starts it again."),
        ),
        AlertRule(
            "TargetDown",
            "page",
            f"The server has not answered for {format_duration(limits.down_for)}.",
            Compared(UP, "<", 1),
            limits.down_for,
            "target-down",
            Advice("`{diagnose}` says why, and what to do."),
        ),
        AlertRule(
            "BootStuck",
            "page",
            "The host has failed in a phase of its boot, or stays in it longer than is allowed.",
            AnyOf(
                tuple(
                    Compared(PHASE_SECONDS[phase], ">", longest.total_seconds())
                    for phase, longest in phases.items()
                )
            ),
            timedelta(),
            "boot-stuck",
            Advice("`{diagnose}` says why, and what to do."),
        ),
        AlertRule(
            "RunEndsSoon",
            "ticket",
            f"The run ends in less than {format_duration(ends_within)}, and nothing takes over.",
            AllOf((left, Compared(SUCCESSORS, "==", 0))),
            timedelta(),
            "end-of-run",
            Advice("`{up}` makes a successor, where tpuflex:slice.renew_before is long enough."),
            in_cloud=left,
        ),
        AlertRule(
            "CostCapReached",
            "page",
            "The run has cost more than it may.",
            Compared(SPENT_USD, ">", _cost_cap(settings)),
            timedelta(),
            "cost-cap",
            Advice("`{status}` shows what is billed; `{down}` ends it."),
        ),
        AlertRule(
            "SpendWithoutSlice",
            "page",
            "Something of the endpoint is billed, and no slice of it is ACTIVE.",
            AllOf((Compared(BILLED_NODES, ">", 0), Compared(SLICES, "==", 0))),
            timedelta(),
            "spend-without-slice",
            Advice("`{status}` shows what is billed; `{down}` ends it."),
        ),
    )


def percent(share: float) -> str:
    """A share in words."""
    return f"{share * 100:.4g} %"


def _run_ends_within(settings: StackSettings) -> timedelta:
    written = settings.monitoring.thresholds.run_ends_within
    if written is not None:
        return written
    return min(_RUN_ENDS_WITHIN, settings.slice.max_run_duration / _PART_OF_A_RUN)


def _cost_cap(settings: StackSettings) -> float | None:
    """What the chips of a run may cost, in US dollars; None where neither a limit is set nor a
    price known."""
    cap = settings.monitoring.thresholds.cost_usd or settings.budget.per_run_usd
    cap = run_cost(settings).maximum if cap is None else cap
    return None if cap is None else float(cap)
