"""`tpuflex up`: from the stack file to a served completion."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name, verbose


@click.command()
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def up(invocation: Invocation) -> None:
    """Bring the stack's endpoint up and wait until it has served a completion.

    Shows what will be created and what it costs, asks for consent, creates it, pushes missing
    weights, and waits through the queue and the host's boot. Safe to run again at any time: it
    continues where it stopped.

    \b
    Under tpuflex:slice in the stack file:
      renew_before: 12h          an `up` in a run's last 12 hours, or after its end,
                                 starts the next run, then deletes this one
      rerun: monday              changing this word makes the next `up` start a new run
      deletion_protection: true  a slice that serves is neither deleted nor replaced
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.up import run_up

    stack = invocation.open_stack()
    run_up(invocation, connect(invocation, stack))
