"""`tpuflex sweep`: list and delete what stacks have left behind."""

from __future__ import annotations

import click

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


@click.command()
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
@stack_name
@as_json
@assume_yes
@pass_invocation
def sweep(invocation: Invocation, slices: tuple[str, ...], take_over: frozenset[str]) -> None:
    """List what stacks have left behind in the cloud, and delete it.

    Asks every service, in every zone of the catalog, for resources with a marker or a name of
    this Pulumi project in the stack's cloud project, and leaves out those in the state of any
    stack. Without --yes only lists; with --yes deletes what owner marker, name, project number
    and state id prove to be ours, and looks again until all is gone.

    What runs is only deleted if --slice names it. What another state has made, or a version that
    gave no state ids, is listed as foreign with the reason, and only deleted with --take-over.
    Exit code 10: after --yes something is left, or a slice runs that was spared; or a zone or
    service could not be listed, so that the list is incomplete.

    \b
    tpuflex sweep            what is left of this project's stacks
    tpuflex sweep --yes      delete what is ours
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.sweep import run_sweep
    from tpuflex.operate.sweep import Chosen

    stack = invocation.open_stack(deploying=False)
    run_sweep(invocation, connect(invocation, stack), Chosen(frozenset(slices), take_over))
