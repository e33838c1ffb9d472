"""`tpuflex doctor`: whether `up` can succeed, found out without making anything."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, pass_invocation, stack_name, verbose


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex --stack prod doctor",
        "tpuflex --stack prod doctor --json  # every check, for a script",
    ),
)
@stack_name
@as_json
@verbose
@pass_invocation
def doctor(invocation: Invocation) -> int:
    """Show what would keep `up` from succeeding, each with the command that mends it.

    Looks at this machine, Pulumi's state, the credential, and in the project at billing, APIs,
    permissions, organisation policies, accelerators, quota, image and weights. It changes nothing
    and costs nothing. What it may not read is unknown, and no failure. Without a stack file it
    says what can be said without one. `up` looks at what decides, too, before it makes anything.

    What has one cause is shown once, with the command that mends it, the failures first; of what
    is in order --verbose shows what was found.

    Exit code 0: nothing failed; else that of the first failure, by its kind.
    """
    from tpuflex.cli.doctor.run import run

    return run(invocation)
