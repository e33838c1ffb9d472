"""`tpuflex capacity`: what an archive of metrics says."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Since, as_json, begin, pass_invocation, stack_name

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod capacity  # of the last 30 days",
        "tpuflex --stack prod capacity --since 7d --plot week.svg",
        "tpuflex capacity ./archive --json  # an archive from elsewhere",
    ),
)
@click.argument(
    "directory",
    metavar="[DIR]",
    required=False,
    type=click.Path(file_okay=False, path_type=Path),
)
@click.option(
    "--since",
    type=Since(),
    metavar="AGE|TIME",
    default="30d",
    show_default=True,
    help="Snapshots since: an age such as 12h or 7d, or a time such as 2026-11-28T03:00Z.",
)
@click.option(
    "--plot",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Draw load, KV cache, tokens and first tokens over time: FILE.svg or FILE.png.",
)
@stack_name
@as_json
@pass_invocation
def capacity(
    invocation: Invocation,
    directory: Path | None,
    since: timedelta | datetime,
    plot: Path | None,
) -> None:
    """Show what the stack has served, what that cost, and whether another slice pays.

    Reads what `tpuflex metrics record` has kept in DIR, by default metrics/ of the project: tokens
    a day, requests at once, how long requests waited or the KV cache was above 85 %, times to the
    first token and between tokens from the histograms, dollars that were paid, idle hours included.
    Beside the peak stand the slices that the model fits on: how much of their KV cache it would
    take, by the memory planner, and what they cost a day.

    A gap is shown as a gap. Peaks are those of the snapshots: what comes and goes between two of
    them is not seen. How fast other chips answer is not known; measure it before you change.
    Prices are those of the catalog. Needs no cloud. Exit code 4: there are no snapshots.
    """
    from tpuflex.cli.capacity.show import show_capacity
    from tpuflex.measure.archive import archived_stack, read_archive
    from tpuflex.measure.capacity import capacity as capacity_of
    from tpuflex.measure.capacity_plot import draw, require_form
    from tpuflex.stack.progress import working

    if plot is not None:
        require_form(plot)
    archive = directory or invocation.project.root / "metrics"
    stack = archived_stack(
        archive,
        invocation.stack,
        chosen=bool(invocation.chosen_stack),
        stacks=_stacks(invocation),
    )
    snapshots = read_archive(archive, stack, begin(since, invocation.now()))
    catalog = _catalog(invocation, stack)
    with working(invocation.report, "Reading the archive"):
        found = capacity_of(snapshots, catalog)
    show_capacity(invocation.output, found)
    if plot is not None:
        draw(found, plot)
        invocation.output.progress(f"Drawn in {plot}.")


def _stacks(invocation: Invocation) -> tuple[str, ...]:
    """The stacks of the project, if there is one."""
    from tpuflex.errors import NotFoundError

    try:
        return invocation.project.stack_names()
    except NotFoundError:
        return ()


def _catalog(invocation: Invocation, stack: str) -> Catalog:
    """The catalog, with the rows of the stack where it is one of this project."""
    from tpuflex.errors import NotFoundError
    from tpuflex.sizing import known_rows

    invocation.chosen_stack = stack
    try:
        return known_rows(invocation.open_stack(deploying=False, by_catalog=True).settings)
    except NotFoundError:
        return invocation.catalog
