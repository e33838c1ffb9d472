"""`tpuflex recover`: after a run that was killed."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name, verbose


@click.command()
@stack_name
@as_json
@verbose
@pass_invocation
def recover(invocation: Invocation) -> None:
    """Mend the stack's state after a run that was killed.

    Breaks the state's lock if the process that holds it is dead, and looks in the cloud for
    everything that the killed run had begun: what exists is taken into the state, what does
    not is cleared. A state that was lost is made anew from what exists. The cloud itself is
    not changed. Exit code 0: the state is whole, and `tpuflex up` or `tpuflex down` go on; 8:
    something has to be decided by hand.

    \b
    After a crash or kill -9:
      tpuflex recover && tpuflex up
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.recover import recover_stack

    stack = invocation.open_stack()
    recover_stack(invocation, connect(invocation, stack))
