"""The steps of `tpuflex cost`: the stack's figures as text, or as one document."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from typing import TYPE_CHECKING

from tpuflex.duration import format_duration
from tpuflex.planning.figure import Figure, SourceList, with_source_table
from tpuflex.planning.memory import MemoryPlan
from tpuflex.planning.request import MemoryRequest, NotPlannable
from tpuflex.planning.stack import plan_stack
from tpuflex.planning.stack_cost import StackCost, Usage, hourly, stack_cost
from tpuflex.planning.throughput import bandwidth_ceiling
from tpuflex.planning.token_cost import Throughput, TokenPrices, token_prices
from tpuflex.terminal.money import dollars, money, show_sources

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.settings.model import StackSettings


def run_cost_report(invocation: Invocation, given: Throughput | None) -> None:
    """Show what the stack costs.

    Args:
        invocation: the command.
        given: throughput for the price of a million tokens; None if none was given.

    Raises:
        NotFoundError: no project, or no such stack.
        SettingsError: the stack file is wrong.
    """
    stack = invocation.open_stack(deploying=False, by_catalog=True)
    settings, output = stack.settings, invocation.output
    if settings.cloud == "embedded":
        output.document({"stack": stack.name, "cloud": "embedded", "cost": None, "free": True})
        output.result(f"Stack {stack.name} is free: nothing leaves this machine.")
        return
    usage = usage_of(settings)
    cost = stack_cost(usage)
    tokens = token_prices(usage.accelerator, usage.weights, cost.per_hour, given)
    decoding = _decoding(settings)
    output.document(
        with_source_table(
            {
                "stack": stack.name,
                "cloud": settings.cloud,
                "accelerator_type": usage.accelerator.name,
                "region": usage.region,
                "elsewhere": {
                    region: figure.to_json() for region, figure in elsewhere(settings).items()
                },
                "free": False,
                "cost": cost.to_json(),
                "tokens": {**tokens.to_json(), "bandwidth_ceiling": decoding.to_json()},
            }
        )
    )
    sources = SourceList()
    output.heading(f"Stack {stack.name}: {usage.accelerator.name} in {usage.region}, Flex-start")
    others = (
        (f"or {region}", money(figure, sources)) for region, figure in elsewhere(settings).items()
    )
    output.facts(
        chain(_facts(usage, cost, sources), others, _token_facts(tokens, decoding, sources))
    )
    show_sources(output, sources)


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
        weights=catalog.served(settings.model.name),
    )


def elsewhere(settings: StackSettings) -> dict[str, Figure]:
    """The price of the chips per hour in the other regions of the stack's zones."""
    catalog = settings.catalog
    accelerator = catalog.accelerators[settings.slice.accelerator_type]
    return {
        region: hourly(accelerator, catalog.price(accelerator.generation, region), region)
        for region in _dearest_first(settings)[1:]
    }


def _dearest_first(settings: StackSettings) -> list[str]:
    """The regions of the zones, those first whose price is not known."""
    generation = settings.catalog.accelerators[settings.slice.accelerator_type].generation

    def rank(region: str) -> tuple[bool, Decimal]:
        row = settings.catalog.price(generation, region)
        price = None if row is None else row.usd_per_chip_hour
        return price is not None, -(price or Decimal(0))

    return sorted(settings.slice.regions, key=rank)


def _decoding(settings: StackSettings) -> Figure:
    """What the memory's bandwidth allows the stack's server to decode."""
    plan = plan_stack(settings)
    if isinstance(plan, MemoryPlan) and isinstance(plan.request, MemoryRequest):
        return bandwidth_ceiling(plan.request, plan.full_length_sequences)
    reason = plan.reason if isinstance(plan, NotPlannable) else "no plan for TPU chips"
    return Figure(None, "tokens per second", f"bandwidth ceiling: {reason}")


def _facts(usage: Usage, cost: StackCost, sources: SourceList) -> Iterator[tuple[str, str]]:
    duration = format_duration(usage.run)
    yield "chips", money(cost.per_hour, sources)
    yield "run", f"at most {money(cost.per_run, sources)}: then Google deletes the slice"
    yield "day", money(cost.per_day, sources)
    if cost.per_day_renewed is not None:
        yield "renewed", f"at most {money(cost.per_day_renewed, sources)}"
    else:
        yield "renewed", f"no: a run ends after {duration}, and nothing is bought again unasked"
    yield "idle", f"{dollars(cost.per_hour.value)} per hour all the same, booting included"
    yield "weights", money(cost.weights_per_day, sources)
    yield "network", money(cost.network_per_day, sources)
    yield "between runs", f"{money(cost.between_runs_per_day, sources)}, until `tpuflex down`"
    yield "not counted", "traffic, logs, secrets, images in Artifact Registry"


def _token_facts(
    tokens: TokenPrices, decoding: Figure, sources: SourceList
) -> Iterator[tuple[str, str]]:
    for name, figure in (("arithmetic", tokens.ceiling), ("decoding", decoding)):
        shown = "not known" if figure.value is None else f"{figure.value:,} tokens/s"
        yield name, f"{shown} {sources.references(figure.sources)} ({figure.basis})"
    yield "tokens", money(tokens.least, sources)
    if tokens.given is not None:
        yield "yours", money(tokens.given, sources)
    if tokens.judgement is not None and tokens.judgement.text:
        yield "FLAGGED", tokens.judgement.text
