"""`tpuflex diagnose`: why an endpoint does not serve, and what to type next."""

from __future__ import annotations

from pathlib import Path

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, endpoint_name, no_tunnel, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex diagnose",
        "tpuflex --stack prod diagnose --json  # for a script",
        "tpuflex --stack prod diagnose --bundle prod.tar.gz  # for somebody who helps",
        "tpuflex diagnose --file vllm.log  # a log of any vLLM server",
        "tpuflex --stack prod diagnose --explain http://localhost:8001/v1  # a draft by a model",
    ),
)
@click.option(
    "--file",
    "log",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="LOG",
    help="Judge the lines of LOG instead, of any vLLM server; needs no stack.",
)
@click.option(
    "--bundle",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write what was read to FILE, a .tar.gz, without secrets; nothing is replaced.",
)
@click.option(
    "--explain",
    metavar="URL",
    help="Send lines, without secrets, to an OpenAI-compatible endpoint, and show the runbook that"
    " its model drafts.",
)
@click.option(
    "--model", metavar="NAME", default="", help="The model of that endpoint.  [default: its first]"
)
@click.option(
    "--key-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the key of that endpoint.  [default: $TPUFLEX_EXPLAIN_KEY]",
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def diagnose(
    invocation: Invocation,
    log: Path | None,
    bundle: Path | None,
    explain: str | None,
    model: str,
    key_file: Path | None,
    no_tunnel: bool,
) -> int:
    """Say what is wrong with the endpoint, what shows it, and what to type next.

    Reads the slice's state, the host's report, the logs of host and server, the server's answer and
    metrics, and, where nothing runs, what Google refused lately and what `tpuflex doctor` finds.
    The result is a class of failure, with the lines that show it, its likely cause, the next
    command, and a runbook. Of several classes, causes come before their effects: an engine that ran
    out of memory, and therefore dies again and again, has run out of memory. If no class fits, it
    says so, with the sources that were read. It changes nothing.

    What is shown, packed by --bundle or sent by --explain has no secrets: neither the values of the
    stack's secrets nor what looks like a credential. --explain marks the lines as untrusted; the
    answer is a draft by a model, and is marked as one.

    Exit code 0: nothing is wrong; 3: it waits, or boots, or there is no capacity; 4: there is no
    slice, and nothing is known to be in the way; 5: the stack file is wrong; 6: a permission, an
    API, a quota or a token is missing; 7: anything else of the host, its server or its run;
    1: something is wrong, and no class fits.
    """
    from tpuflex.cli.diagnose.run import ask_with, run, run_file

    if explain is None and (model or key_file is not None):
        raise click.UsageError("--model and --key-file need --explain.")
    if log is not None and bundle is not None:
        raise click.UsageError("--bundle packs what was read of a stack; --file reads none.")
    ask = None if explain is None else ask_with(invocation, explain, model, key_file)
    if log is not None:
        return run_file(invocation, log, ask)
    return run(invocation, bundle, ask, tunnel=not no_tunnel)
