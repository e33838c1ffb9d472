"""`tpuflex recommend`: which chips for a model and a load."""

from __future__ import annotations

import click

from tpuflex.cli.completion_values import rows, scenarios
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, as_json, pass_invocation, verbose


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex recommend --model google/gemma-4-31B-it --context 16384 --concurrency 8",
        "tpuflex recommend --scenario list",
    ),
)
@click.option(
    "--model",
    "models",
    metavar="NAME",
    multiple=True,
    shell_complete=rows("models"),
    help="Hugging Face id; may be repeated.",
)
@click.option(
    "--model-dir",
    "directories",
    metavar="DIR",
    multiple=True,
    help="A checkpoint, ranked by its files: a directory, gs://BUCKET/PREFIX, or hf://OWNER/NAME;"
    " may be repeated.",
)
@click.option(
    "--context",
    type=click.IntRange(1, 10_000_000),
    metavar="TOKENS",
    help="Tokens of the longest sequence, prompt and answer together.",
)
@click.option(
    "--concurrency", type=click.IntRange(1, 100_000), metavar="N", help="Sequences at once."
)
@click.option(
    "--ttft",
    type=FiniteRange(min=0, min_open=True, max=86_400),
    metavar="SECONDS",
    help="Seconds within which the first token is wanted.",
)
@click.option("--budget", metavar="USD", help="US dollars per hour for chips.")
@click.option(
    "--scenario",
    metavar="NAME",
    shell_complete=scenarios,
    help="A row of a published decision matrix; `list` lists them.",
)
@as_json
@verbose
@pass_invocation
def recommend(
    invocation: Invocation,
    models: tuple[str, ...],
    directories: tuple[str, ...],
    context: int | None,
    concurrency: int | None,
    ttft: float | None,
    budget: str | None,
    scenario: str | None,
) -> int:
    """Rank chips for a model and a load, with price, limits and evidence.

    Every figure names its source. Fit is computed by the memory planner; limits are ceilings that
    no server passes, not predictions; published measurements are quoted as they stand. What is not
    known is said to be not known. --scenario fills in what a published decision matrix says, and
    other options override it; for some scenarios tpuflex is not the answer, and it says what is.

    A stack is one slice of one host: where it holds fewer sequences than are wanted, the price is
    that of as many stacks as hold all of them.

    Exit code 5 if nothing fits, or nothing within the budget; 4 if that is not known, or a model or
    scenario is not.
    """
    from tpuflex.cli.plan.recommend import Asked, run_recommend

    asked = Asked(
        models=models,
        directories=directories,
        context=context,
        concurrency=concurrency,
        ttft=ttft,
        budget=budget,
        scenario=scenario,
    )
    return run_recommend(invocation, asked)
