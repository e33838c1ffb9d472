"""`tpuflex sweep`: list and delete what stacks have left behind."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex sweep  # what is left of this project's stacks",
        "tpuflex sweep --yes  # delete what is ours",
        "tpuflex sweep --all --exit-code --json  # every cloud project, as a schedule wants it",
    ),
)
@click.option(
    "--slice",
    "slices",
    multiple=True,
    metavar="NAME",
    help="Delete this queued resource or node although it runs, and what it needs. Repeatable.",
)
@click.option(
    "--all",
    "every",
    is_flag=True,
    help="Look at every cloud project that a stack file of this project names.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="End with exit code 10 if something is there that no state knows, for a schedule.",
)
@stack_name
@as_json
@assume_yes
@pass_invocation
def sweep(
    invocation: Invocation,
    slices: tuple[str, ...],
    every: bool,
    exit_code: bool,
) -> int:
    """List what stacks have left behind in the cloud, and delete it.

    Asks every service, in every zone of the catalog, for resources with a marker or a name of
    this Pulumi project in the stack's cloud project, and leaves out those in the state of any
    stack. Without --yes only lists; with --yes deletes what owner marker, name, project number
    and state id prove to be ours, and looks again until all is gone.

    What runs is only deleted if --slice names it. What another state has made, or carries no
    state id, is listed as foreign with the reason, and never deleted.
    Exit code 10: after --yes something is left, or a slice runs that was spared; or a zone or
    service could not be listed, so that the list is incomplete; with --exit-code, whenever there
    is something that no state knows.
    """
    from tpuflex.cli.sweep.run import run_sweep, run_sweep_all

    named = frozenset(slices)
    if every:
        if invocation.chosen_stack:
            raise click.UsageError("--all and --stack contradict each other: give one of them.")
        return run_sweep_all(invocation, named, exit_code=exit_code)
    stack = invocation.open_deployed(of_stack=True)
    run_sweep(invocation, invocation.connect(stack), named, exit_code=exit_code)
    return 0
