"""`tpuflex library …`: a home for weights that outlives the endpoints."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import (
    Commands,
    as_json,
    assume_yes,
    pass_invocation,
    stack_name,
    verbose,
)


@click.group(
    cls=Commands,
    examples=(
        "tpuflex --stack prod library up",
        "tpuflex --stack prod library status",
    ),
)
def library() -> None:
    """A home for weights that outlives the endpoints: one library per Google Cloud project."""


@library.command(
    examples=(
        "tpuflex --stack prod library up  # in the stack's region",
        "tpuflex --stack prod library up --region europe-west4  # and there, too",
        "tpuflex --stack prod library up --new-programs-key  # a host was broken into",
    ),
)
@click.option("--region", "regions", multiple=True, help="A further region; may be repeated.")
@click.option(
    "--new-programs-key",
    is_flag=True,
    help="Sign compiled programs with a new key: hosts that boot from now on compile anew.",
)
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def up(invocation: Invocation, regions: tuple[str, ...], new_programs_key: bool) -> None:
    """Make a private bucket in the stack's region, and in those that are named.

    In the Google Cloud project of the stack, with a secret that signs compiled programs, a few
    cents a month. It says first what is made, and asks; the buckets cost nothing
    while they are empty. Regions that the library has stay. The same command goes on where one was
    killed, and changes nothing where there is nothing to do.

    Stacks whose file says `tpuflex:model.weights.bucket: library` then find their weights there:
    pushed once, shared, and left by `down`.
    """
    from tpuflex.cli.library.run import run_library_up
    from tpuflex.deploy.library import wrong_region

    if wrong := wrong_region(regions):
        raise click.BadParameter(f"{wrong} is no region of Google Cloud.", param_hint="--region")
    stack = invocation.open_stack(deploying=False)
    cloud = invocation.connect(stack)
    run_library_up(invocation, cloud, regions, new_programs_key=new_programs_key)


@library.command(
    examples=("tpuflex --stack prod library status --json",),
)
@stack_name
@as_json
@pass_invocation
def status(invocation: Invocation) -> None:
    """Show the library's buckets and models, what they cost per month, and who may read them.

    Asks the cloud and no state, so that buckets of another state are shown, too. Exit code 4: there
    is no library.
    """
    from tpuflex.cli.library.run import run_library_status

    stack = invocation.open_stack(deploying=False)
    run_library_status(invocation, invocation.connect(stack, start=False))


@library.command(
    examples=(
        "tpuflex --stack prod library down --dry-run  # what would be lost",
        "tpuflex --stack prod library down",
    ),
)
@click.option("--with-readers", is_flag=True, help="Delete it although endpoints may read from it.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and stop.")
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def down(invocation: Invocation, with_readers: bool, dry_run: bool) -> None:
    """Delete the library with all weights in it, and prove that nothing of it is left.

    Shows what is lost, and asks for the project's id. Refused while endpoints may read from it, and
    where another backend has its state. Exit code 10: something is left.
    """
    from tpuflex.cli.library.run import run_library_down

    stack = invocation.open_stack(deploying=False)
    run_library_down(
        invocation, invocation.connect(stack), with_readers=with_readers, dry_run=dry_run
    )
