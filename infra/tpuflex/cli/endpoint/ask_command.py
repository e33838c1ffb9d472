"""`tpuflex ask`: one question, one streamed answer, and how fast it came."""

from __future__ import annotations

import sys

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import FiniteRange, as_json, no_tunnel, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        'tpuflex ask "In one sentence, what is the capital of France?"',
        'tpuflex --stack prod ask "Hello" --json  # answer and figures, for a script',
        'tpuflex ask "Hello" --endpoint http://127.0.0.1:8000  # through a tunnel that is open',
        "tpuflex ask - < question.txt",
    ),
)
@click.argument("question")
@click.option("--max-tokens", type=click.IntRange(1), default=256, show_default=True)
@click.option("--temperature", type=FiniteRange(0, 2), default=0.0, show_default=True)
@click.option(
    "--endpoint", metavar="URL", default="", help="Ask this endpoint instead, such as a tunnel."
)
@no_tunnel
@stack_name
@as_json
@pass_invocation
def ask(
    invocation: Invocation,
    question: str,
    max_tokens: int,
    temperature: float,
    endpoint: str,
    no_tunnel: bool,
) -> None:
    """Ask the endpoint one question and stream the answer.

    Every user of this machine can read a command line, and the question with it: with - as the
    question, it is read from standard input.

    The API key is fetched from Secret Manager. Time to first token and tokens per second go
    to standard error.

    A private endpoint is asked through IAP, by a tunnel of its own that gcloud opens and that is
    closed afterwards; where tpuflex:network.allowed_cidrs lets somebody in, its address is tried
    first, for 2 seconds. Exit code 4: there is no endpoint; 6: a role is missing.
    """
    from tpuflex.cli.endpoint.ask import run_ask
    from tpuflex.operate.ask import Question

    stack = invocation.open_stack(deploying=False)
    model, url = stack.settings.model.name, endpoint.rstrip("/")
    asked = Question(url, model, _read(question), max_tokens, temperature)
    run_ask(invocation, invocation.connect(stack, start=False), asked, tunnel=not no_tunnel)


def _read(question: str) -> str:
    try:
        text = sys.stdin.read().strip() if question == "-" else question
    except UnicodeDecodeError as error:
        raise click.UsageError("The question on standard input is no text.") from error
    if not text:
        raise click.UsageError("The question is empty.")
    return text
