"""`tpuflex status`: the state of the endpoint."""

from __future__ import annotations

import click

from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, no_tunnel, pass_invocation, stack_name


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex status  # the dev stack",
        "tpuflex --stack prod status --json  # for a script",
        "tpuflex --stack prod status --no-tunnel  # from the cloud alone",
    ),
)
@no_tunnel
@stack_name
@as_json
@pass_invocation
def status(invocation: Invocation, no_tunnel: bool) -> None:
    """Show the state of the endpoint, from the queue to the host.

    Asks the cloud, not Pulumi's state. Exit code 0: the host serves; 3: the request is waiting,
    the host is booting or starts its server again; 4: there is no endpoint; 7: the boot or the
    server failed, the host drains, or the run has ended.

    While one slice hands over to another, it shows the one that serves; the other is under `also`.

    A host that says READY is asked whether it answers now (/health, which needs no key): a private
    endpoint through IAP, as by `tpuflex ask`. That takes some seconds, a minute at most, and
    changes no exit code: a server that is dead is `answers NO`, or "answers": false under "health"
    with --json, and the exit code is 0. --no-tunnel leaves it out.
    """
    from tpuflex.cli.endpoint.status import run_status

    stack = invocation.open_stack(deploying=False)
    run_status(invocation, invocation.connect(stack, start=False), tunnel=not no_tunnel)
