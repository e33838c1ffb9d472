"""`tpuflex verify`, `details`, `metrics`: what an endpoint says of itself; `capacity`: what was
recorded of it."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    begin,
    endpoint_name,
    no_tunnel,
    pass_invocation,
    since,
    stack_name,
    watch,
    watch_every,
)

if TYPE_CHECKING:
    from tpuflex.catalog.catalog import Catalog


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex verify",
        "tpuflex --stack prod verify --json  # for a script",
    ),
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def verify(invocation: Invocation, no_tunnel: bool) -> None:
    """Check that the endpoint does what it is there for, token by token.

    Every check is made, also after one has failed: /health answers; the model is served; vLLM is
    no older than the oldest without known holes; a request without the key is refused; 16 tokens
    are completed; the engine has counted them. An engine that is frozen fails, though its /health
    answers 200: half a minute at most.

    Exit code 7: it does not serve as it should; 6: it answers without a key, or refuses the
    stack's, or a role is missing; 4: there is no endpoint. What is not known fails nothing.

    A private endpoint is reached through IAP, as by `tpuflex ask`.
    """
    from tpuflex.cli.measure.endpoint import show_verification
    from tpuflex.measure.verify import verify as verify_endpoint
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Verifying the endpoint"):
        found = verify_endpoint(cloud, invocation.report, tunnel=not no_tunnel)
    show_verification(invocation, found)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex details",
        "tpuflex --stack prod details --json",
    ),
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def details(invocation: Invocation, no_tunnel: bool) -> None:
    """Show what the endpoint serves, and how, as its server says.

    Model, context and version; how weights and KV cache are quantised, and the type that is
    computed in; blocks and tokens of the KV cache, and how many sequences of full length that is;
    memory of the server's process. What vLLM does not report is by the stack file, or by the
    catalog's row of the model, and says so. A figure that was planned otherwise (`tpuflex memory`)
    has the planned one beside it.

    A private endpoint is reached through IAP, as by `tpuflex ask`. Exit code 4: there is no
    endpoint; 6: it refuses the stack's key, or a role is missing; 7: it does not answer.
    """
    from tpuflex.cli.measure.endpoint import show_details
    from tpuflex.measure.details import details as read_details
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    with working(invocation.report, "Asking the endpoint"):
        found = read_details(cloud, invocation.report, tunnel=not no_tunnel)
    show_details(invocation, found)


@click.group(
    cls=Commands,
    invoke_without_command=True,
    subcommand_metavar="[record ...]",
    examples=(
        "tpuflex metrics",
        "tpuflex metrics --watch  # every 5 seconds, until Ctrl-C",
        "tpuflex --stack prod metrics --watch 60 --json >> metrics.jsonl",
        "tpuflex --stack prod metrics record  # every minute, for `tpuflex capacity`",
    ),
)
@watch_every(5.0)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
@click.pass_context
def metrics(
    ctx: click.Context, invocation: Invocation, seconds: float | None, no_tunnel: bool
) -> None:
    """Show how the endpoint is used: requests, KV cache, latencies, tokens, cost so far.

    All of it is what vLLM counts itself, since its start. Quantiles come from its histograms:
    where little more than a bucket is known, its bounds are shown, such as <0.3 or 20-40; --json
    has the value that Prometheus interpolates, with count and buckets. Its time to the first token
    begins when a request has arrived at the server. Tokens of a prompt that the prefix cache had
    are counted apart from those that were computed.

    Running and waiting are the engine's last words. In flight is what the server has let in and
    not yet answered: where the engine makes no step meanwhile, that is said, and it may be frozen.

    The cost per million tokens is that of the slice since the server's start, over one kind of
    tokens alone: idle time is in it.

    With --watch, what was counted between two looks stands beside it; a terminal is drawn again,
    elsewhere a block follows the other, with --json a document on a line. While there is no answer,
    the last values stand with their age, and after two intervals they are called stale. Ctrl-C
    ends it with exit code 0; before the first look, with 130.

    A private endpoint is reached through IAP, as by `tpuflex ask`. Exit code 4: there is no
    endpoint; 6: it refuses the stack's key, or a role is missing; 7: it does not answer.
    """
    if ctx.invoked_subcommand is not None:
        if seconds is not None or no_tunnel:
            raise click.UsageError("Write options of `metrics record` after its name.")
        return
    from tpuflex.cli.measure.endpoint import show_usage
    from tpuflex.measure.usage import read_usage, watch_usage
    from tpuflex.stack.progress import working

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    if seconds is None:
        with working(invocation.report, "Asking the endpoint"):
            found = read_usage(cloud, invocation.report, tunnel=not no_tunnel)
        invocation.output.document(found.to_json())
        show_usage(invocation, found)
        return
    looks = watch_usage(cloud, seconds, invocation.report, tunnel=not no_tunnel)
    watch(invocation.output, looks, partial(show_usage, invocation))


@metrics.command(
    examples=(
        "tpuflex --stack prod metrics record  # in metrics/ of the project, until Ctrl-C",
        "tpuflex --stack prod metrics record ./archive --interval 30",
    ),
)
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--interval",
    type=click.IntRange(10, 3600),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two snapshots.",
)
@no_tunnel
@stack_name
@endpoint_name
@as_json
@pass_invocation
def record(invocation: Invocation, directory: Path | None, interval: int, no_tunnel: bool) -> None:
    """Keep a snapshot of the metrics every minute, for `tpuflex capacity`, until Ctrl-C.

    Writes Parquet, a file per stack and day (UTC) in DIR, by default metrics/ of the project: the
    counters as they stand and the buckets of the histograms, with stack, slice, zone, model and
    version. A day is some 150 kB. Needs pyarrow: `pip install 'tpuflex[measure]'`.

    A server that does not answer, or a slice that is gone, is a row that says so; the recording
    goes on with what comes next, through a new tunnel where the old one broke. Ctrl-C ends it with
    exit code 0 and all that was taken, before the first look with 130; what ends it otherwise loses
    the last minute. A stack is recorded once at a time in a directory. Exit code 6: a role is
    missing, or the key is refused.
    """
    from tpuflex.measure.record import record as record_metrics

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    archive = _archive(invocation, directory)
    found = record_metrics(
        cloud, archive, invocation.report, interval=interval, tunnel=not no_tunnel
    )
    invocation.output.document(found.to_json())
    missing = f"; {found.unanswered:,} more were not answered" if found.unanswered else ""
    invocation.output.result(f"Recorded {found.snapshots:,} snapshots{missing}.")


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
@since("Snapshots", default="30d")
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
    from tpuflex.cli.measure.capacity import show_capacity
    from tpuflex.measure.archive import archived_stack, read_archive
    from tpuflex.measure.capacity import capacity as capacity_of
    from tpuflex.measure.capacity_plot import draw, require_form
    from tpuflex.stack.progress import working

    if plot is not None:
        require_form(plot)
    archive = _archive(invocation, directory)
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


def _archive(invocation: Invocation, directory: Path | None) -> Path:
    """The archive of metrics: ``directory``, or that of the project."""
    return directory or invocation.project.root / "metrics"
