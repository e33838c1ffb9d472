"""What `tpuflex cost` prints."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from tpuflex.duration import format_duration
from tpuflex.planning.figure import Figure, SourceList
from tpuflex.planning.token_cost import TokenPrices
from tpuflex.terminal.money import dollars, money, show_sources

if TYPE_CHECKING:
    from tpuflex.planning.stack_cost import CostReport, StackCost, Usage
    from tpuflex.terminal.output import Output


def show_cost(output: Output, report: CostReport) -> None:
    """Show what the stack costs."""
    output.document(report.to_json())
    bill = report.bill
    if bill is None:
        output.result(f"Stack {report.stack} is free: nothing leaves this machine.")
        return
    usage, sources = bill.usage, SourceList()
    output.heading(f"Stack {report.stack}: {usage.accelerator.name} in {usage.region}, Flex-start")
    output.facts(
        chain(
            _facts(usage, bill.cost, sources),
            ((f"or {region}", money(each, sources)) for region, each in bill.elsewhere.items()),
            _token_facts(bill.tokens, bill.bandwidth_ceiling, sources),
        )
    )
    show_sources(output, sources)


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
    yield "metrics", f"at most {money(cost.metrics_per_day, sources)}"
    if usage.alert_references:
        yield "alerts", f"at most {money(cost.alerts_per_day, sources)}, until `tpuflex down`"
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
