"""`tpuflex down`: destroy everything of a stack and prove that nothing is left."""

from __future__ import annotations

import click

from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, pass_invocation, stack_name, verbose


@click.command()
@click.option("--dry-run", is_flag=True, help="List what would be destroyed, and stop.")
@stack_name
@as_json
@assume_yes
@verbose
@pass_invocation
def down(invocation: Invocation, dry_run: bool) -> None:
    """Destroy everything of the stack and prove that nothing is left.

    Lists what will be destroyed and asks for the stack's name. Afterwards asks every service
    what it still holds of the stack: anything left is listed and the exit code is 10. The stack
    file is kept. While tpuflex:slice has `deletion_protection: true` and the slice serves,
    nothing is deleted (exit code 1): set it to false and run `tpuflex up` first.
    """
    from tpuflex.cli.cloud import connect
    from tpuflex.cli.steps.down import run_down

    stack = invocation.open_stack(deploying=False)
    run_down(invocation, connect(invocation, stack), dry_run=dry_run)
