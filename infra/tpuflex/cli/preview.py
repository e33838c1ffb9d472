"""`tpuflex preview`: what `up` would do, and what it would cost."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name, verbose


@click.command()
@stack_name
@as_json
@verbose
@pass_invocation
def preview(invocation: Invocation) -> None:
    """Show what `up` would do, and what it would cost.

    Creates nothing. Starts the embedded cloud if the stack runs there and it is not running.
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.stack_run import StackRun

    stack = invocation.open_stack()
    stack_run = StackRun(invocation, connect(invocation, stack))
    plan = stack_run.plan()
    invocation.output.document(plan.to_json())
    plan.show(invocation.output)
