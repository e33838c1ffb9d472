"""What a stack costs per hour, run, day and million tokens, as figures with their sources.

Chips are billed while the slice exists, whether or not it serves. What is not known here is None:
traffic out of the region, logs, and images in Artifact Registry come on top of everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Literal

from tpuflex.alerts.conditions import ShareAbove, parts_of
from tpuflex.alerts.rules import alert_rules
from tpuflex.naming import DNS_ZONE_ROLES
from tpuflex.planning.figure import GIB, MIB, Figure, distinct, with_source_table
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.rates import (
    ALERTING,
    DISTRIBUTION_BYTES,
    DNS_ZONE,
    METRICS,
    NAT_ADDRESS,
    NAT_PER_HOST,
    POINT_BYTES,
    STORAGE,
)
from tpuflex.planning.request import MemoryRequest, NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.planning.throughput import bandwidth_ceiling
from tpuflex.planning.token_cost import Throughput, TokenPrices, token_prices
from tpuflex.planning.weights import PARAMETER_BYTES
from tpuflex.startup.series import DISTRIBUTION, SERIES

if TYPE_CHECKING:
    from tpuflex.catalog.rows import Accelerator, Model, Price
    from tpuflex.settings.model import StackSettings

_DAY = Decimal(24)
_MONTH = Decimal(30)
_HOURLY = "USD per hour"
_DAILY = "USD per day"


def chips_for(usd_per_chip_hour: Decimal, chips: int, hours: Decimal) -> Decimal:
    """What ``chips`` cost for ``hours``, in US dollars."""
    return usd_per_chip_hour * chips * hours


def renewed_chip_hours(hours: Decimal, run: timedelta, overlap: timedelta) -> Decimal:
    """Hours of slices that are billed for ``hours`` in service, if each run overlaps the next."""
    if overlap >= run:
        raise ValueError("a run has to be longer than the overlap")
    seconds = int(run.total_seconds())
    return hours * seconds / (seconds - int(overlap.total_seconds()))


def stored_bytes(model: Model) -> int:
    """Bytes of the model's weights, at least: a checkpoint may hold parts that are not loaded, such
    as an audio tower."""
    if model.stored is not None:
        return model.stored.sharded + model.stored.replicated
    return PARAMETER_BYTES * (model.text_params + (model.vision_params or 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What is bought, and for how long.

    Attributes:
        accelerator: the slice.
        price: price of its chips; None where there is no row.
        region: where chips and weights are; of several regions the one with the dearest chips.
        further: the other regions: a copy of the weights, and NAT, are there, too.
        run: how long a run lasts.
        renew_before: how long before its end the next run is planned; None when it is not renewed.
        egress: how the hosts reach out.
        weights: the model whose weights are stored; None when its size is not known.
        metrics: whether the hosts write to Cloud Monitoring.
        alert_references: references to metrics in the queries of the alert policies.
    """

    accelerator: Accelerator
    price: Price | None
    region: str
    run: timedelta
    renew_before: timedelta | None = None
    egress: Literal["google", "internet", "existing"] = "google"
    weights: Model | None = None
    further: tuple[str, ...] = ()
    metrics: bool = True
    alert_references: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StackCost:
    """The costs of one stack; a value of None is not known.

    Attributes:
        per_hour: chips per hour.
        per_run: chips for one run.
        per_day: chips for a day in service, without overlap.
        per_day_renewed: the same with the longest overlap of each renewal; None when runs are not
            renewed.
        weights_per_day: storage of the weights.
        network_per_day: DNS zones or NAT.
        metrics_per_day: what the hosts write to Cloud Monitoring while they serve, at most.
        alerts_per_day: the queries of the alert policies, at most, until `down`.
        between_runs_per_day: weights and network, which are paid without a slice, too, until
            `down`.
    """

    per_hour: Figure
    per_run: Figure
    per_day: Figure
    per_day_renewed: Figure | None
    weights_per_day: Figure
    network_per_day: Figure
    metrics_per_day: Figure
    alerts_per_day: Figure
    between_runs_per_day: Figure

    def to_json(self) -> dict[str, object]:
        """The costs in a JSON document."""
        renewed = None if self.per_day_renewed is None else self.per_day_renewed.to_json()
        return {
            "per_hour": self.per_hour.to_json(),
            "per_run": self.per_run.to_json(),
            "per_day": self.per_day.to_json(),
            "per_day_renewed": renewed,
            "weights_per_day": self.weights_per_day.to_json(),
            "network_per_day": self.network_per_day.to_json(),
            "metrics_per_day": self.metrics_per_day.to_json(),
            "alerts_per_day": self.alerts_per_day.to_json(),
            "between_runs_per_day": self.between_runs_per_day.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What is paid for a stack on Google.

    Attributes:
        usage: what is bought.
        cost: what it costs.
        elsewhere: the price of the chips per hour in the other regions of its zones.
        tokens: what a million tokens cost.
        bandwidth_ceiling: tokens per second that the memory's bandwidth allows it to decode.
    """

    usage: Usage
    cost: StackCost
    elsewhere: Mapping[str, Figure]
    tokens: TokenPrices
    bandwidth_ceiling: Figure


@dataclass(frozen=True, slots=True)
class CostReport:
    """What a stack costs.

    Attributes:
        stack: its name.
        bill: what is paid for it; None on the embedded cloud, which is free.
    """

    stack: str
    bill: Bill | None

    def to_json(self) -> dict[str, object]:
        """The document of ``tpuflex cost --json``."""
        bill = self.bill
        if bill is None:
            return {"stack": self.stack, "cloud": "embedded", "cost": None, "free": True}
        return with_source_table(
            {
                "stack": self.stack,
                "cloud": "google",
                "accelerator_type": bill.usage.accelerator.name,
                "region": bill.usage.region,
                "elsewhere": {region: each.to_json() for region, each in bill.elsewhere.items()},
                "free": False,
                "cost": bill.cost.to_json(),
                "tokens": {
                    **bill.tokens.to_json(),
                    "bandwidth_ceiling": bill.bandwidth_ceiling.to_json(),
                },
            }
        )


def cost_report(
    stack: str, settings: StackSettings, throughput: Throughput | None = None
) -> CostReport:
    """What the stack of ``settings`` costs.

    Args:
        stack: its name.
        settings: its settings.
        throughput: what the price of a million tokens is computed with, beside the ceilings.
    """
    if settings.cloud == "embedded":
        return CostReport(stack, None)
    usage = usage_of(settings)
    cost = stack_cost(usage)
    catalog, chips = settings.catalog, usage.accelerator
    bill = Bill(
        usage=usage,
        cost=cost,
        elsewhere={
            region: hourly(chips, catalog.price(chips.generation, region), region)
            for region in usage.further
        },
        tokens=token_prices(chips, usage.weights, cost.per_hour, throughput),
        bandwidth_ceiling=_bandwidth_ceiling(settings),
    )
    return CostReport(stack, bill)


def usage_of(settings: StackSettings) -> Usage:
    """What the stack of ``settings`` buys, where it is dearest."""
    catalog = settings.catalog
    accelerator = catalog.accelerators[settings.slice.accelerator_type]
    region, *further = _dearest_first(settings)
    return Usage(
        accelerator=accelerator,
        price=catalog.price(accelerator.generation, region),
        region=region,
        further=tuple(further),
        run=settings.slice.max_run_duration,
        renew_before=settings.slice.renew_before,
        egress=settings.network.egress,
        weights=settings.served,
        metrics=settings.monitoring.export_metrics,
        alert_references=_references(settings) if settings.monitoring.alert_policies else 0,
    )


def _dearest_first(settings: StackSettings) -> list[str]:
    """The regions of the zones, those first whose price is not known."""
    generation = settings.catalog.accelerators[settings.slice.accelerator_type].generation

    def rank(region: str) -> tuple[bool, Decimal]:
        row = settings.catalog.price(generation, region)
        price = None if row is None else row.usd_per_chip_hour
        return price is not None, -(price or Decimal(0))

    return sorted(settings.slice.regions, key=rank)


def _bandwidth_ceiling(settings: StackSettings) -> Figure:
    plan = plan_stack(settings)
    if isinstance(plan, MemoryPlan) and isinstance(plan.request, MemoryRequest):
        return bandwidth_ceiling(plan.request, plan.full_length_sequences)
    reason = plan.reason if isinstance(plan, NotPlannable) else "no plan for TPU chips"
    return Figure(None, "tokens per second", f"bandwidth ceiling: {reason}")


def hourly(accelerator: Accelerator, price: Price | None, region: str) -> Figure:
    """The price of a slice per hour."""
    if price is None:
        return Figure(None, _HOURLY, f"no price of {accelerator.generation} in {region} is known")
    if price.usd_per_chip_hour is None:
        return Figure(None, _HOURLY, f"the price in {region} was not read", (price.source,))
    chips = "1 chip" if accelerator.chips == 1 else f"{accelerator.chips} chips"
    return Figure(
        chips_for(price.usd_per_chip_hour, accelerator.chips, Decimal(1)),
        _HOURLY,
        f"{chips} at ${price.usd_per_chip_hour} in {region}",
        (price.source,),
    )


def stack_cost(usage: Usage) -> StackCost:
    """The costs of ``usage``."""
    per_hour = hourly(usage.accelerator, usage.price, usage.region)
    weights, network = _weights(usage), _network(usage)
    idle = (weights, network)
    return StackCost(
        per_hour=per_hour,
        per_run=_for_hours(per_hour, _hours(usage.run), "USD per run"),
        per_day=_for_hours(per_hour, _DAY, _DAILY),
        per_day_renewed=_renewed(usage, per_hour),
        weights_per_day=weights,
        network_per_day=network,
        metrics_per_day=_metrics(usage),
        alerts_per_day=_alerts(usage),
        between_runs_per_day=Figure(
            sum((Decimal(str(figure.value or 0)) for figure in idle), Decimal(0)),
            _DAILY,
            "DNS zones or NAT, and the weights" + ("" if weights.value else " (not known)"),
            distinct(source for figure in idle for source in figure.sources),
        ),
    )


def _renewed(usage: Usage, per_hour: Figure) -> Figure | None:
    overlap = usage.renew_before
    if overlap is None or overlap >= usage.run:
        return None
    hours = renewed_chip_hours(_DAY, usage.run, overlap)
    words = f": each run overlaps the next by at most {_hours(overlap):g} h"
    return _for_hours(per_hour, hours, _DAILY, words)


def _for_hours(per_hour: Figure, hours: Decimal, unit: str, words: str = "") -> Figure:
    if per_hour.value is None:
        return Figure(None, unit, per_hour.basis, per_hour.sources)
    amount = Decimal(str(per_hour.value)) * hours
    return Figure(amount, unit, f"{hours:.4g} h at ${per_hour.value:.2f}{words}", per_hour.sources)


def _weights(usage: Usage) -> Figure:
    model = usage.weights
    if model is None:
        return Figure(None, _DAILY, "the size of the weights is not known")
    size = Decimal(stored_bytes(model)) / GIB
    rates = {region: STORAGE.get(region) for region in (usage.region, *usage.further)}
    if unread := [region for region, rate in rates.items() if rate is None]:
        words = f"{size:.1f} GiB; the price of storage in {' and '.join(unread)} was not read"
        return Figure(None, _DAILY, words, (model.source,))
    known = [rate for rate in rates.values() if rate is not None]
    each = " and ".join(f"${rate.usd_per_hour}" for rate in known)
    return Figure(
        sum((size * rate.usd_per_hour * _DAY for rate in known), Decimal(0)),
        _DAILY,
        f"at least {size:.1f} GiB at {each} per GiB and hour",
        distinct((*(rate.source for rate in known), model.source)),
    )


def _network(usage: Usage) -> Figure:
    if usage.egress == "google":
        zones = len(DNS_ZONE_ROLES)
        amount = zones * DNS_ZONE.usd_per_hour * _DAY
        words = f"{zones} private DNS zones at ${DNS_ZONE.usd_per_hour} per hour"
        return Figure(amount, _DAILY, words, (DNS_ZONE.source,))
    if usage.egress == "existing":
        return Figure(Decimal(0), _DAILY, "nothing: the network is there already", ())
    hosts, addresses = usage.accelerator.hosts, 1 + len(usage.further)
    amount = (hosts * NAT_PER_HOST.usd_per_hour + addresses * NAT_ADDRESS.usd_per_hour) * _DAY
    count = "one address" if addresses == 1 else f"{addresses} addresses"
    words = f"NAT for {hosts} host(s) and {count}, without $0.045 per GiB of traffic"
    return Figure(amount, _DAILY, words, (NAT_PER_HOST.source,))


def _metrics(usage: Usage) -> Figure:
    """What is written, as if nothing of it were free: whether it is, is known only for the whole
    billing account."""
    if not usage.metrics:
        return Figure(Decimal(0), _DAILY, "nothing: monitoring.export_metrics is false", ())
    points = (DISTRIBUTION_BYTES if each.type == DISTRIBUTION else POINT_BYTES for each in SERIES)
    written = sum(points) * 24 * 60 * usage.accelerator.hosts
    mib = Decimal(written) / MIB
    words = (
        f"{mib:.2f} MiB at ${METRICS.usd_per_mib}; nothing while the billing account writes less"
        f" than {METRICS.free_mib} MiB a month"
    )
    return Figure(mib * METRICS.usd_per_mib, _DAILY, words, (METRICS.source,))


def _references(settings: StackSettings) -> int:
    """References to metrics in the queries of the alert policies; a share has two."""
    parts = [
        part
        for rule in alert_rules(settings)
        if rule.cloud_condition is not None
        for part in parts_of(rule.cloud_condition)
    ]
    return len(parts) + sum(isinstance(part, ShareAbove) for part in parts)


def _alerts(usage: Usage) -> Figure:
    """A query that is evaluated once a minute returns a point for each reference and host."""
    references = usage.alert_references
    if not references:
        return Figure(Decimal(0), _DAILY, "nothing: monitoring.alert_policies is false", ())
    points = Decimal(references * 24 * 60 * usage.accelerator.hosts) / 1_000_000
    amount = references * ALERTING.usd_per_reference / _MONTH + points * ALERTING.usd_per_million
    words = (
        f"{references} references to metrics at ${ALERTING.usd_per_reference} a month, and their"
        f" points; nothing before {ALERTING.begins}"
    )
    return Figure(amount, _DAILY, words, (ALERTING.source,))


def _hours(duration: timedelta) -> Decimal:
    return Decimal(int(duration.total_seconds())) / 3600
