"""`tpuflex bootstrap`: what a project needs once for previews and deployments from GitHub."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name, verbose

_NUMBERS = "gh api repos/OWNER/NAME --jq '.owner.id, .id'"


@click.command(
    cls=ExampleCommand,
    examples=(
        "gh api repos/acme/chat --jq '.owner.id, .id'  # the two numbers",
        "tpuflex bootstrap -s prod --repository acme/chat --owner-id 12 --repository-id 34",
        "tpuflex bootstrap -s prod --remove --dry-run  # the way back",
    ),
)
@click.option("--repository", metavar="OWNER/NAME", help="The repository whose workflows get in.")
@click.option("--owner-id", type=click.IntRange(min=1), help="Number of its owner.")
@click.option("--repository-id", type=click.IntRange(min=1), help="Its own number.")
@click.option(
    "--environment",
    default="production",
    show_default=True,
    metavar="NAME",
    help="The GitHub environment whose jobs may deploy.",
)
@click.option("--remove", is_flag=True, help="Remove what a bootstrap has made.")
@click.option(
    "--with-states", is_flag=True, help="With --remove: delete the states in the bucket, too."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and stop.")
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def bootstrap(
    invocation: Invocation,
    repository: str | None,
    owner_id: int | None,
    repository_id: int | None,
    environment: str,
    remove: bool,
    with_states: bool,
    dry_run: bool,
) -> None:
    """Make what a project needs once for previews and deployments from GitHub.

    In the Google Cloud project and region of the stack: a private, versioned bucket for states, a
    key for their secrets, service accounts that may preview and deploy with custom roles, and an
    identity pool that takes GitHub's tokens for this repository alone, by its numbers, so that no
    key of an account exists. Shows all of it first, asks, and prints the variables that the
    workflows need. Run again, it changes only what differs.

    --remove is the way back. A bucket that holds states is refused without --with-states; the key
    stays, because Google deletes none.
    """
    from tpuflex.components.bootstrap_names import Repository
    from tpuflex.deploy.bootstrap import run_bootstrap, run_removal

    if remove:
        if repository or owner_id or repository_id:
            raise click.UsageError("--remove takes no repository.")
        stack = invocation.open_stack(deploying=False)
        run_removal(invocation, invocation.connect(stack), with_states=with_states, dry_run=dry_run)
        return
    if with_states:
        raise click.UsageError("--with-states is for --remove.")
    if repository is None or owner_id is None or repository_id is None:
        raise click.UsageError(
            "Give --repository, --owner-id and --repository-id. A name can be taken by somebody"
            f" else later, a number cannot: {_NUMBERS}"
        )
    try:
        chosen = Repository(repository, owner_id, repository_id, environment)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    stack = invocation.open_stack(deploying=False)
    run_bootstrap(invocation, invocation.connect(stack), chosen, dry_run=dry_run)
