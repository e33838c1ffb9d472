"""`tpuflex sweep`: list and delete what stacks have left behind."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name


@click.command()
@click.option(
    "--all-stacks",
    is_flag=True,
    help="Include resources of stacks that have neither a stack file nor a state here.",
)
@stack_name
@as_json
@assume_yes
@pass_invocation
def sweep(invocation: Invocation, all_stacks: bool) -> None:
    """List what stacks have left behind in the cloud, and delete it.

    Asks every service, in every zone of the catalog, for resources with the owner marker of
    this Pulumi project in the stack's cloud project, and leaves out those in the state of any
    stack. Without --yes only lists; with --yes deletes, and looks again until all is gone.
    Resources without our marker are never touched. Exit code 10: something is left, or a zone
    or service could not be listed, so that the list is incomplete.

    \b
    tpuflex sweep                       what is left of this project's stacks
    tpuflex sweep --all-stacks --yes    delete it, and what forgotten stacks left
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.sweep import run_sweep

    stack = invocation.open_stack()
    run_sweep(invocation, connect(invocation, stack), all_stacks=all_stacks)
