"""`tpuflex catalog`: the rows that everything else is computed from."""

from __future__ import annotations

import click

from tpuflex.cli.completion_values import rows_of_chosen_kind
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name

#: The kinds of rows, in the order in which they are listed.
KINDS = ("accelerators", "zones", "prices", "models", "images")


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex catalog zones  # where which chips are granted",
        "tpuflex catalog accelerators v6e-4  # one row, with its sources",
        "tpuflex catalog prices --json  # rows as catalog.yaml has them",
    ),
)
@click.argument("kind", required=False, type=click.Choice(KINDS))
@click.argument("name", required=False, shell_complete=rows_of_chosen_kind)
@stack_name
@as_json
@pass_invocation
def catalog(invocation: Invocation, kind: str | None, name: str | None) -> None:
    """Show what is known of accelerators, zones, prices, models and images.

    Every row says where it comes from and when that was read or observed; what is not known is
    shown as "?". Without KIND, count the rows; with KIND, list them; with NAME (an accelerator
    type, a zone, a region, a model, an image's digest or its beginning), show everything about it.

    Rows of your own in catalog.yaml beside Pulumi.yaml add to the catalog or replace its rows, and
    are marked with "*". With --stack, so do those in the stack file's tpuflex:catalog. With --json
    the rows are as such a file holds them (JSON is YAML), so one can be copied and changed; "own"
    repeats yours.

    Exit codes: 4 if there is no such row, 5 if a row of yours is wrong.
    """
    from tpuflex.cli.plan.catalog import run_catalog

    run_catalog(invocation, kind, name)
