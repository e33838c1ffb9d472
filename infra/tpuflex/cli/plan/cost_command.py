"""`tpuflex cost`: what a stack costs."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, as_json, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex cost  # the dev stack",
        "tpuflex --stack prod cost --tokens-per-second 900 --busy 40",
    ),
)
@click.option(
    "--tokens-per-second",
    type=FiniteRange(min=0, min_open=True, max=1e12),
    metavar="N",
    help="Throughput that you measured or assume, for the price of a million tokens.",
)
@click.option(
    "--basis",
    metavar="TEXT",
    help="Where that throughput comes from, such as how you measured it.  [default: assumed]",
)
@click.option(
    "--busy",
    type=FiniteRange(min=0, min_open=True, max=100),
    metavar="PERCENT",
    help="Share of the time with that throughput; the rest is idle and paid as well."
    "  [default: 100]",
)
@stack_name
@as_json
@pass_invocation
def cost(
    invocation: Invocation, tokens_per_second: float | None, basis: str | None, busy: float | None
) -> None:
    """Show what the stack costs per hour, run, day and million tokens.

    Needs no cloud. Chips are billed while the slice exists, whether or not it serves. The price of
    a million tokens is that of your own throughput, and beside it are the ceilings of arithmetic
    and of the memory's bandwidth; a throughput above what the chips can compute is flagged.
    """
    from tpuflex.cli.plan.cost import run_cost_report
    from tpuflex.planning.token_cost import Throughput

    if tokens_per_second is not None:
        given = Throughput(tokens_per_second, (busy or 100) / 100, basis or "assumed")
        run_cost_report(invocation, given)
    elif basis is not None or busy is not None:
        raise click.UsageError("--basis and --busy say something of --tokens-per-second.")
    else:
        run_cost_report(invocation, None)
