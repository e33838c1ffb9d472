"""`tpuflex logs`: the log of the host's boot, and how long boots took."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex logs --lines 200",
        "tpuflex --stack prod logs --follow  # until Ctrl-C",
        "tpuflex --stack prod logs --kept --follow  # where gcloud does not reach the host",
        "tpuflex --stack prod logs --phase fetch  # image and weights",
        "tpuflex --stack prod logs --container  # what the server wrote",
        "tpuflex --stack prod logs --boots --lines 3  # how long the last three boots took",
    ),
)
@click.option("-f", "--follow", is_flag=True, help="Go on showing what comes, until Ctrl-C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(1, 100_000),
    help="Lines to show of what is there; with --boots, boots.  [default: 50; boots: 10]",
)
@click.option("--kept", is_flag=True, help="Read Cloud Logging, also if the host is there.")
@click.option(
    "--phase",
    metavar="PHASE",
    help="Only the lines of a phase of the last boot, such as fetch, from Cloud Logging.",
)
@click.option(
    "--container",
    is_flag=True,
    help="Only what the server wrote until it was READY or the boot failed, from Cloud Logging.",
)
@click.option(
    "--boots",
    is_flag=True,
    help="The boots of the stack's hosts instead: how long, how they ended.",
)
@stack_name
@as_json
@pass_invocation
def logs(
    invocation: Invocation,
    follow: bool,
    lines: int | None,
    kept: bool,
    phase: str | None,
    container: bool,
    boots: bool,
) -> None:
    """Show the log of the host's boot, or how long boots took.

    On the embedded cloud the log is a file. On Google it is read by gcloud, which needs its
    component alpha, over SSH through IAP; gcloud's exit code is passed on.

    The host also writes its log to Cloud Logging: with every phase what is new, and when the boot
    ends the last lines of the server. It is kept there for 30 days. It is read of a host that is
    gone, and with --kept, --phase or --container of every host; it then needs neither gcloud nor
    SSH, and is some seconds behind, with --follow up to the phase that began last. Exit code 4:
    there is no log, or no such part of it.

    From there, too, --boots reads when the stack's hosts booted, how long, and how each boot ended,
    also after `down`. The newest is shown by phase beside the median of those shown that were
    READY. Chips are billed while a host boots. A boot without an end goes on, or its host was lost.
    """
    from tpuflex.cli.endpoint.boots import run_boots
    from tpuflex.cli.endpoint.logs import run_logs
    from tpuflex.operate.kept_log import Part

    if follow and invocation.json:
        raise click.UsageError("--json prints one document: it cannot be used with --follow.")
    if phase and container:
        raise click.UsageError("--phase is of the script's lines, --container of the server's.")
    if boots and (follow or kept or phase or container):
        raise click.UsageError(
            "--boots is a table of boots, and no log: of the others, only --lines can be added."
        )
    cloud = invocation.connect(invocation.open_stack(deploying=False), start=False)
    if boots:
        run_boots(invocation, cloud, lines or 10)
        return
    part = Part(lines or 50, phase or "", container)
    run_logs(invocation, cloud, part, follow=follow, kept=kept)
