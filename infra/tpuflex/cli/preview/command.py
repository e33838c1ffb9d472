"""`tpuflex preview`: what `up` would do, and what it would cost."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name, verbose


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod preview",
        "tpuflex --stack prod preview --markdown comment.md --base origin/main",
        "tpuflex --stack prod preview --json  # with the digest for `up --expect`",
        "tpuflex --stack prod preview --refresh --exit-code  # on a schedule",
    ),
)
@click.option(
    "--refresh",
    is_flag=True,
    help="Compare all that the state has with the cloud first, and show what was deleted or "
    "changed there, and what `up --refresh` would do about it.",
)
@click.option(
    "--exit-code",
    is_flag=True,
    help="End with exit code 13 if something is not as planned: if `up` would change something, "
    "because of the stack file or of what --refresh finds.",
)
@click.option(
    "--markdown",
    metavar="[FILE]",
    is_flag=False,
    flag_value="-",
    default="",
    help="Write it as the comment on a change, in GitHub's Markdown.  [default: standard output]",
)
@click.option(
    "--base",
    metavar="REF",
    default="",
    help="Compare with the stack file of this Git reference, such as origin/main; a stack whose "
    "file is deleted since then is shown with what it leaves behind.",
)
@click.option("--new-host", is_flag=True, help="Show what `up --new-host` would do.")
@stack_name
@as_json
@verbose
@pass_invocation
def preview(
    invocation: Invocation,
    refresh: bool,
    exit_code: bool,
    markdown: str,
    base: str,
    new_host: bool,
) -> None:
    """Show what `up` would do, and what it would cost.

    Creates nothing, and refuses as `up` would where another state has made what is there, or where
    a rule of `tpuflex policy` is broken: then it shows the whole plan all the same, and ends with
    exit code 11. Starts the embedded cloud if the stack runs there and it is not running.

    Also looks for what `up` does before it requests chips: weights that it would push or copy, and
    what of weights, image and secrets it would refuse, which is shown and leaves the exit code
    alone. What the caller may not read is shown as not checked; so is a source of weights that is a
    directory of another machine.

    Without --refresh the slice alone is compared with the cloud: a firewall rule or a bucket that
    somebody has deleted is planned as if it were there. Neither changes the state.

    With --markdown, what a reviewer has to know: what is added, changed, replaced and deleted, for
    how long an endpoint that serves would be away, cost before and after, memory. A preview that
    fails says why in the same place, and exits with the code of its failure.
    """
    from tpuflex.cli.preview.run import STANDARD_OUTPUT, PreviewOptions, run_preview

    if invocation.json and markdown == STANDARD_OUTPUT:
        raise click.UsageError("--json and --markdown both write to standard output: name a file.")
    run_preview(invocation, PreviewOptions(markdown, base, refresh, exit_code, new_host))
