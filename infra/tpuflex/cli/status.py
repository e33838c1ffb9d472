"""`tpuflex status`: where the endpoint stands."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name


@click.command()
@stack_name
@as_json
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show where the endpoint stands, from the queue to the host.

    Asks the cloud, not Pulumi's state. Exit code 0: it serves; 3: it waits or boots; 4: there
    is none; 7: the boot failed, or the run has ended.
    """
    from tpuflex.cli.cloud import connect_running
    from tpuflex.cli.standing import show_status
    from tpuflex.operate.status import slice_status

    stack = invocation.open_stack()
    cloud = connect_running(invocation, stack)
    found = slice_status(stack.settings, stack.names, cloud.tpu, now=invocation.now())
    show_status(invocation, stack, found)
