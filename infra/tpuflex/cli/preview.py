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

    Creates nothing, and refuses as `up` would where another state has made what is there. Starts
    the embedded cloud if the stack runs there and it is not running.
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.stack_run import StackRun
    from tpuflex.cli.steps.first_up import require_free_names

    cloud = connect(invocation, invocation.open_stack())
    stack_run = StackRun(invocation, cloud)
    plan = stack_run.plan()
    require_free_names(cloud, stack_run, plan.plan)
    invocation.output.document(plan.to_json())
    plan.show(invocation.output)
