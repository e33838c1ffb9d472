"""The text of docs/cost.md: what is billed when, with an example that the planner computes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from tpuflex.alerts.rules import alert_rules
from tpuflex.planning.figure import Figure, SourceList
from tpuflex.planning.rates import ALERTING, METRICS, NAT_ADDRESS, NAT_PER_HOST
from tpuflex.planning.stack_cost import StackCost, Usage, stack_cost, usage_of
from tpuflex.settings.load import load_stack_file
from tpuflex.settings.model import StackSettings
from tpuflex.terminal.money import dollars

_STACK = "first-proof"
_ROOT = Path(__file__).parents[2]
_FILE = _ROOT / "stacks" / f"Pulumi.{_STACK}.yaml"
#: The words of the page, with names in braces where figures stand.
_PAGE = _ROOT / "docs" / "_templates" / "cost.md"
_DAYS = 30
_RUN, _RENEW = timedelta(days=1), timedelta(hours=2)


def cost_reference() -> str:
    """The document."""
    settings = load_stack_file(_FILE, deploying=False).settings
    usage = usage_of(settings)
    renewing = replace(usage, run=_RUN, renew_before=_RENEW)
    cost, renewed = stack_cost(usage), stack_cost(renewing)
    sources = SourceList()
    return _PAGE.read_text("utf-8").format(
        zones=dollars(cost.network_per_day.value),
        nat=dollars((NAT_PER_HOST.usd_per_hour + NAT_ADDRESS.usd_per_hour) * 24),
        **_metrics(cost.metrics_per_day),
        **_alerts(settings),
        stack=_STACK,
        model=settings.model.name,
        slice=f"one {usage.accelerator.generation} chip",
        region=usage.region,
        run="one hour",
        example=_table(_example(cost), sources),
        per_run=dollars(cost.per_run.value),
        days=_DAYS,
        idle_month=dollars(_month(cost.between_runs_per_day)),
        renewed_month=dollars(_renewed_month(renewed)),
        renewed=_table(_renewed(renewing, renewed), sources),
        sources="\n".join(f"- {line}" for line in sources.lines()),
    )


def _alerts(settings: StackSettings) -> dict[str, object]:
    """What alert policies cost, of a stack that has them."""
    monitoring = settings.monitoring.model_copy(update={"alert_policies": True})
    usage = usage_of(settings.model_copy(update={"monitoring": monitoring}))
    return {
        "alerts": dollars(stack_cost(usage).alerts_per_day.value),
        "alerts_begin": ALERTING.begins,
        "alerts_rate": ALERTING.usd_per_reference,
        "alerts_references": usage.alert_references,
        "alerts_policies": sum(rule.cloud_condition is not None for rule in alert_rules(settings)),
    }


def _metrics(per_day: Figure) -> dict[str, object]:
    """What the hosts write to Cloud Monitoring."""
    mib = _month(per_day) / METRICS.usd_per_mib
    return {
        "metrics": dollars(per_day.value),
        "metrics_mib": f"{mib:.1f}",
        "metrics_rate": METRICS.usd_per_mib,
        "metrics_free": METRICS.free_mib,
        "metrics_hosts": int(METRICS.free_mib / mib),
    }


def _example(cost: StackCost) -> Iterable[tuple[str, Figure]]:
    yield "chips, an hour", cost.per_hour
    yield "chips, a run, at most", cost.per_run
    yield "weights, a day", cost.weights_per_day
    yield "DNS zones, a day", cost.network_per_day
    yield "between runs, a day", cost.between_runs_per_day


def _renewed(usage: Usage, cost: StackCost) -> Iterable[tuple[str, Figure]]:
    if usage.renew_before is None or cost.per_day_renewed is None:
        raise ValueError("the example is one of renewal")
    yield "chips, a day without overlap", cost.per_day
    yield "chips, a day, at most", cost.per_day_renewed


def _table(rows: Iterable[tuple[str, Figure]], sources: SourceList) -> str:
    return "\n".join(
        f"| {name} | {dollars(each.value)} {sources.references(each.sources)} | {each.basis} |"
        for name, each in rows
    )


def _month(*per_day: Figure) -> Decimal:
    return sum((Decimal(str(figure.value)) for figure in per_day), Decimal(0)) * _DAYS


def _renewed_month(cost: StackCost) -> Decimal:
    if cost.per_day_renewed is None:
        raise ValueError("the example is one of renewal")
    return _month(cost.per_day_renewed, cost.weights_per_day, cost.network_per_day)
