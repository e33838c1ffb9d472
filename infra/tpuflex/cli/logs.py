"""`tpuflex logs`: the log of the host's boot."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex logs --lines 200",
        "tpuflex --stack prod logs --follow  # until Ctrl-C",
    ),
)
@click.option("-f", "--follow", is_flag=True, help="Go on showing what comes, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 100_000),
    default=50,
    show_default=True,
    help="Lines to show of what is there.",
)
@stack_name
@as_json
@pass_invocation
def logs(invocation: Invocation, follow: bool, lines: int) -> None:
    """Show the log of the host's boot.

    On the embedded cloud the log is a file. On Google it is read by gcloud, which needs its
    component alpha, over SSH through IAP; gcloud's exit code is passed on. Of a host that is gone,
    the end of the log of its last boot is read from Cloud Logging. Exit code 4: there is neither.
    """
    from tpuflex.cli.cloud import connect_running
    from tpuflex.cli.steps.logs import run_logs

    if follow and invocation.json:
        raise click.UsageError("--json prints one document: it cannot be used with --follow.")
    stack = invocation.open_stack(deploying=False)
    run_logs(invocation, connect_running(invocation, stack), lines, follow=follow)
