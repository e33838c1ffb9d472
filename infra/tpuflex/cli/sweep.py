"""`tpuflex sweep`: list and delete what stacks have left behind."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name
from tpuflex.naming import is_state_id

#: What `--take-over` takes for resources that carry no state id.
_NONE = "none"


def _state_ids(
    _ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> frozenset[str]:
    """The ids of ``--take-over``; empty text for what carries none."""
    for text in given:
        if text != _NONE and not is_state_id(text):
            raise click.BadParameter(
                f"{text!r} is no state id. `tpuflex sweep` lists them: 20 hexadecimal digits, or "
                f"{_NONE!r} for what carries none."
            )
    return frozenset("" if text == _NONE else text for text in given)


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
    "--take-over",
    multiple=True,
    metavar="STATE_ID",
    callback=_state_ids,
    help="Treat what this state has left behind as ours; `none`: what carries no state id. "
    "Repeatable.",
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
    take_over: frozenset[str],
    every: bool,
    exit_code: bool,
) -> int:
    """List what stacks have left behind in the cloud, and delete it.

    Asks every service, in every zone of the catalog, for resources with a marker or a name of
    this Pulumi project in the stack's cloud project, and leaves out those in the state of any
    stack. Without --yes only lists; with --yes deletes what owner marker, name, project number
    and state id prove to be ours, and looks again until all is gone.

    What runs is only deleted if --slice names it. What another state has made, or a version that
    gave no state ids, is listed as foreign with the reason, and only deleted with --take-over.
    Exit code 10: after --yes something is left, or a slice runs that was spared; or a zone or
    service could not be listed, so that the list is incomplete; with --exit-code, whenever there
    is something that no state knows.
    """
    from tpuflex.cli.cloud import connect, connect_running
    from tpuflex.cli.steps.sweep import run_sweep
    from tpuflex.operate.sweep import Chosen

    chosen = Chosen(frozenset(slices), take_over)
    if every:
        from tpuflex.cli.steps.sweep_all import run_sweep_all

        if invocation.chosen_stack:
            raise click.UsageError("--all and --stack contradict each other: give one of them.")
        return run_sweep_all(invocation, chosen, connect_running, exit_code=exit_code)
    stack = invocation.open_stack(deploying=False)
    run_sweep(invocation, connect(invocation, stack), chosen, exit_code=exit_code)
    return 0
