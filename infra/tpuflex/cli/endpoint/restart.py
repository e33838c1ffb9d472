"""`tpuflex restart` and `reboot`: the server, or its machine, is started again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from tpuflex.advice import Advice
from tpuflex.cli.examples import ExampleCommand
from tpuflex.cli.invocation import Invocation
from tpuflex.cli.options import as_json, assume_yes, endpoint_name, pass_invocation, stack_name
from tpuflex.duration import format_roughly

if TYPE_CHECKING:
    from tpuflex.deploy.restarts import Restart
    from tpuflex.stack.connection import Connection


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex restart",
        "tpuflex --stack prod restart --now --yes  # a server that hangs",
    ),
)
@click.option(
    "--now",
    is_flag=True,
    help="Do not wait until the server has answered what it has begun.",
)
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def restart(invocation: Invocation, now: bool) -> None:
    """Start the server again, on the same host, and wait until it has served a completion.

    Says what it does, how long nothing is served and what it costs, and asks. The host takes
    nothing new, ends what it has begun, for tpuflex:slice.drain (10 minutes) at most, and starts a
    new container with the weights and compiled programs that it has. It reads the secrets again.
    It also starts a server that is frozen, or that was given up. Ctrl-C before the server was
    stopped calls it off.

    Needs no SSH: the host is asked through Google's API. One that boots, that drains because its
    run ends, or that says nothing any more is not asked (exit code 1), nor one whose boot failed:
    `tpuflex reboot`. Exit code 7: the host does not react within two and a half minutes, or its
    server does not serve again; 3: the request is waiting; 4: there is no endpoint.
    """
    from tpuflex.deploy.restarts import restart as restart_server

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    done = restart_server(cloud, invocation.report, consent=invocation.consent, drains=not now)
    _show(invocation, cloud, done)


@click.command(
    cls=ExampleCommand,
    examples=(
        "tpuflex reboot",
        "tpuflex --stack prod reboot --yes  # a host that says nothing",
    ),
)
@stack_name
@endpoint_name
@as_json
@assume_yes
@pass_invocation
def reboot(invocation: Invocation) -> None:
    """Boot the host's machine again, and wait until it has served a completion.

    Resets the slice, which keeps its capacity: no new capacity is asked for, and the run goes on
    to the end that it had. Says how long nothing is served and what it costs, and asks. What the
    server answers is cut off: `tpuflex restart` lets it end. The weights are fetched again.

    Exit code 7: it does not serve again, or there is no machine: a run that is over has none;
    3: the request is waiting; 4: there is no endpoint.
    """
    from tpuflex.deploy.restarts import reboot as reboot_machine

    cloud = invocation.connect(invocation.open_deployed(), start=False)
    done = reboot_machine(cloud, invocation.report, consent=invocation.consent)
    _show(invocation, cloud, done)


def _show(invocation: Invocation, cloud: Connection, result: Restart) -> None:
    from tpuflex.terminal.boot_bars import boot_bars

    output = invocation.output
    output.document(result.to_json())
    output.result()
    output.heading("READY: a completion was served")
    at = cloud.now().timestamp()
    output.facts(
        (
            ("endpoint", result.stack.settings.url(result.slice.address)),
            ("after", format_roughly(timedelta(seconds=result.seconds))),
            ("boot", boot_bars(result.slice.host, at, plain=output.ascii_only)),
        )
    )
    output.result()
    commands = Advice('Next: {ask} "your question"\n      {status}')
    output.result(commands.for_stack(result.stack.name, invocation.environ))
