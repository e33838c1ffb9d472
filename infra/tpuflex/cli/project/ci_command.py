"""`tpuflex ci …`: previews, deployments and renewals by GitHub Actions, or by another CI."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import Commands, as_json, pass_invocation


@click.group(
    cls=Commands,
    examples=(
        "tpuflex ci init",
        "tpuflex ci stacks --base origin/main",
    ),
)
def ci() -> None:
    """What a repository's workflows need: which stacks, and the workflows themselves."""


@ci.command(
    examples=("tpuflex ci init --branch main",),
)
@click.option(
    "--source",
    metavar="OWNER/NAME@COMMIT",
    default="",
    help="tpuflex on GitHub, and the commit to use.  [default: what is installed, if it was "
    "installed from there]",
)
@click.option(
    "--branch",
    metavar="NAME",
    default="",
    help="The protected branch that is deployed.  [default: origin's, or main]",
)
@as_json
@pass_invocation
def init(invocation: Invocation, source: str, branch: str) -> None:
    """Write the repository's workflows for GitHub Actions, or update them.

    Each is a few lines that call a workflow of tpuflex by its commit: tpuflex-preview.yml comments
    on every pull request, tpuflex-deploy.yml runs the plan that was approved, tpuflex-renew.yml
    starts the next run of stacks with renew_before, tpuflex-sweep.yml looks for what no state
    knows. Run it again for another version: it changes its own files only, and none that somebody
    has edited. docs/ci.md says what to set up on GitHub and on Google Cloud.
    """
    from tpuflex.cli.project.ci_init import run_ci_init

    run_ci_init(invocation, source, branch)


@ci.command(
    examples=(
        "tpuflex ci stacks --base origin/main --json",
        "tpuflex ci stacks --renewing --json",
    ),
)
@click.option(
    "--base", metavar="REF", help="Those that differ from this Git reference, such as origin/main."
)
@click.option(
    "--renewing",
    is_flag=True,
    help="Those on Google with renew_before, which a schedule has to bring up again.",
)
@as_json
@pass_invocation
def stacks(invocation: Invocation, base: str | None, renewing: bool) -> None:
    """List the stacks that a change touches, or that a schedule renews.

    A stack is touched by a change of its file; every stack is by one of Pulumi.yaml or
    catalog.yaml. A renamed stack is two: one that is left behind, and a new one.
    """
    from tpuflex.cli.project.ci import run_changed, run_renewing

    if renewing == (base is not None):
        raise click.UsageError("Write --base or --renewing.")
    if base is None:
        run_renewing(invocation)
    else:
        run_changed(invocation, base)
