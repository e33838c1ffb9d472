"""`tpuflex down`: destroy everything of a stack, or of many, and prove that nothing is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, sha256, stack_name, verbose
from tpuflex.duration import parse_duration

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection
    from tpuflex.stack.stack import Stack


def _duration(
    _ctx: click.Context, _parameter: click.Parameter, text: str | None
) -> timedelta | None:
    if text is None:
        return None
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from error
    if not duration:
        raise click.BadParameter("write how long: 30m, 12h, 2d.")
    return duration


def _labels(
    _ctx: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> dict[str, str]:
    labels: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise click.BadParameter(f"{text!r} is no label: write KEY=VALUE.")
        if labels.setdefault(key, value) != value:
            raise click.BadParameter(f"{key} cannot have two values.")
    return labels


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex down  # the dev stack",
        "tpuflex --stack prod down --purge-weights  # and what a library has of its weights",
        "tpuflex down --all --dry-run  # what there is, and what it costs per hour",
        "tpuflex down --older-than 12h --yes  # slices that were made 12 hours ago, or earlier",
        "tpuflex down --now  # without waiting for what the server answers",
    ),
)
@click.option("--all", "every", is_flag=True, help="All stacks of the project that have a state.")
@click.option(
    "--label",
    "labels",
    multiple=True,
    metavar="KEY=VALUE",
    callback=_labels,
    help="Only stacks of which a resource carries this label. Repeatable: all must match.",
)
@click.option(
    "--older-than",
    metavar="DURATION",
    callback=_duration,
    help="Only stacks whose slice is at least this old, such as 12h.",
)
@click.option(
    "--purge-weights",
    is_flag=True,
    help="Remove the stack's weights, too, from a library or a bucket of yours.",
)
@click.option(
    "--now",
    is_flag=True,
    help="Do not wait until the server has answered what it has begun.",
)
@click.option("--dry-run", is_flag=True, help="List what would be destroyed, and stop.")
@click.option(
    "--expect",
    metavar="DIGEST",
    default="",
    callback=sha256,
    help="Go on only if the plan is the one with this digest, which `--dry-run --json` gives; "
    "otherwise nothing is deleted, and the exit code is 12.",
)
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def down(
    invocation: Invocation,
    every: bool,
    labels: dict[str, str],
    older_than: timedelta | None,
    purge_weights: bool,
    now: bool,
    dry_run: bool,
    expect: str,
) -> int:
    """Destroy everything of the stack and prove that nothing is left.

    Lists what will be destroyed and asks for the stack's name. Afterwards asks every service
    what it still holds of the stack: anything left is listed and the exit code is 10. The stack
    file is kept, and is not needed: without it, or where it is wrong, the state says what there is.
    A server that answers takes nothing new, and is deleted when it has answered what it has begun,
    at the latest after the tpuflex:slice.drain of the last `up` (10 minutes); --now does not wait
    for that. While tpuflex:slice has `deletion_protection: true` and the slice serves, nothing is
    deleted (exit code 1): set it to false and run `tpuflex up` first.

    Weights in a library, or in a bucket of yours, stay, and it says what they cost a month. With
    --purge-weights the set of this stack goes, too, when all else is gone; while another endpoint
    may use it, nothing is deleted (exit code 1). Other sets stay.

    With --all, or a condition without --stack, it works on every stack of the project that has a
    state: lists them with their cost, asks once, tears them down one after the other, and ends
    with a table. All conditions must hold. One that fails does not stop the others; the exit code
    is the highest of them.
    """
    from tpuflex.deploy.candidates import Selection

    selection = Selection(labels, older_than)
    if every and invocation.chosen_stack:
        raise click.UsageError("--all and --stack contradict each other: give one of them.")
    if purge_weights and (every or not selection.everything):
        raise click.UsageError("--purge-weights works on one stack, without conditions.")
    if expect and (every or not selection.everything or dry_run):
        raise click.UsageError("--expect works on one stack, without conditions or --dry-run.")

    def connect(stack: Stack) -> Connection:
        cloud = invocation.connect(stack)
        return cloud.without_drain() if now else cloud

    if not every and selection.everything:
        from tpuflex.cli.down.run import run_down

        cloud = connect(invocation.open_deployed(of_stack=True))
        run_down(invocation, cloud, dry_run=dry_run, purge_weights=purge_weights, expected=expect)
        return 0
    from tpuflex.cli.down.many import run_down_many

    every = not invocation.chosen_stack
    return run_down_many(invocation, selection, connect, every=every, dry_run=dry_run)
