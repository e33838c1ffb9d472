"""`tpuflex tunnel`: the endpoint's port on this machine."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod tunnel",
        "tpuflex --stack prod tunnel --port 9000",
    ),
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of this machine.  [default: the endpoint's own]",
)
@stack_name
@pass_invocation
def tunnel(invocation: Invocation, port: int | None) -> None:
    """Forward the endpoint's port to this machine, through IAP.

    Runs gcloud, which needs its component alpha, until Ctrl-C; its exit code is passed on. The
    port listens on 127.0.0.1 alone. A tunnel that breaks off after a minute or more is opened
    again. An endpoint on the embedded cloud needs none, unless its hosts have private addresses
    (`tpuflex emulator strictness`). Exit code 4: there is no host.
    """
    from tpuflex.operate.way_in import run_tunnel

    stack = invocation.open_stack(deploying=False)
    run_tunnel(invocation, invocation.connect(stack, start=False), port)
