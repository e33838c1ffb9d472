"""`tpuflex sweep`: what stacks have left behind."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name


@click.command()
@click.option(
    "--all-stacks",
    is_flag=True,
    help="Also what belongs to stacks that have neither a stack file nor a state here.",
)
@stack_name
@as_json
@assume_yes
@pass_invocation
def sweep(invocation: Invocation, all_stacks: bool) -> None:
    """List what stacks have left behind in the cloud, and delete it.

    Asks every service, in every zone of the catalog, for what carries the marker of this
    Pulumi project in the stack's cloud project, and leaves out what the state of any stack
    knows. Only listed without --yes; with it deleted, and looked for again until it is gone.
    What carries no marker of ours is never touched. Exit code 10: something is left, or a
    zone or service could not be listed, so that the list is incomplete.

    \b
    tpuflex sweep                       what is left of this project's stacks
    tpuflex sweep --all-stacks --yes    delete it, also what forgotten stacks left
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.sweep import sweep_cloud

    stack = invocation.open_stack()
    sweep_cloud(invocation, connect(invocation, stack), all_stacks=all_stacks)
