"""`tpuflex ssh`: a shell on the stack's host."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=("tpuflex --stack prod ssh",),
)
@stack_name
@pass_invocation
def ssh(invocation: Invocation) -> None:
    """Open a shell on the stack's host, through IAP.

    Runs gcloud, which needs its component alpha; its exit code is passed on. A host of the
    embedded cloud has an SSH server only with a private address (`tpuflex emulator strictness`).
    Exit code 4: there is no host.
    """
    from tpuflex.operate.way_in import run_ssh

    stack = invocation.open_stack(deploying=False)
    run_ssh(invocation, invocation.connect(stack, start=False))
