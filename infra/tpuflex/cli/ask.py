"""`tpuflex ask`: one question, one streamed answer, and how fast it came."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, as_json, pass_invocation, stack_name


@click.command()
@click.argument("question")
@click.option("--max-tokens", type=click.IntRange(1), default=256, show_default=True)
@click.option("--temperature", type=FiniteRange(0, 2), default=0.0, show_default=True)
@click.option(
    "--endpoint", metavar="URL", default="", help="Ask this endpoint instead, such as a tunnel."
)
@stack_name
@as_json
@pass_invocation
def ask(
    invocation: Invocation, question: str, max_tokens: int, temperature: float, endpoint: str
) -> None:
    """Ask the endpoint one question and stream the answer.

    The API key is fetched from Secret Manager. Time to first token and tokens per second go
    to standard error.
    """
    from tpuflex.cli.cloud import connect_running
    from tpuflex.cli.steps.ask import addressed, run_ask

    cloud = connect_running(invocation, invocation.open_stack(deploying=False))
    run_ask(invocation, cloud, addressed(cloud, question, max_tokens, temperature, endpoint))
