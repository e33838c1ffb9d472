"""`tpuflex recover`: repair the state after a run was killed."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name, verbose


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex recover && tpuflex up  # after a crash or kill -9",
        "tpuflex recover --take-over  # after the state itself was lost",
    ),
)
@stack_name
@as_json
@verbose
@click.option(
    "--take-over",
    is_flag=True,
    help="Also adopt what another state of this stack has made: one that is lost.",
)
@pass_invocation
def recover(invocation: Invocation, take_over: bool) -> None:
    """Repair the stack's state after a run was killed.

    Breaks the state's lock if the process that holds it is dead, and looks in the cloud for
    everything that the killed run had begun: what exists is adopted into the state, what does
    not is cleared. The cloud itself is not changed. A lost state is rebuilt from what exists with
    --take-over: without it, what another state has made is listed and left to that state.
    Exit code 0: the state is complete, and `tpuflex up` or `tpuflex down` can go on; 8:
    something has to be decided by hand.
    """
    from tpuflex.cli.recover.run import run_recover

    stack = invocation.open_deployed(of_stack=True)
    run_recover(invocation, invocation.connect(stack), take_over=take_over)
