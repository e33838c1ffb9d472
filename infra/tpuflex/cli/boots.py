"""`tpuflex boots`: the boots of the stack's hosts, and how long each took."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex boots",
        "tpuflex --stack prod boots --last 3",
        "tpuflex --stack prod boots --json  # with the seconds of every phase",
    ),
)
@click.option(
    "--last",
    type=click.IntRange(1, 100),
    default=10,
    show_default=True,
    metavar="N",
    help="How many boots to show, the newest ones.",
)
@stack_name
@as_json
@pass_invocation
def boots(invocation: Invocation, last: int) -> None:
    """Show the boots of the stack's hosts: when, how long, and how each ended.

    They are read from Cloud Logging, where a host writes with every phase of its boot, and which
    keeps it for 30 days, also after `down`; no host is asked. The newest boot is shown by phase
    beside the median of those shown that were READY. Exit code 4: there is none.

    Chips are billed while a host boots. A boot without an end goes on, or its host was lost.
    """
    from tpuflex.cli.cloud import connect_running
    from tpuflex.cli.steps.boots import run_boots

    stack = invocation.open_stack(deploying=False)
    run_boots(invocation, connect_running(invocation, stack), last)
