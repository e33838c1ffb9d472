"""How `tpuflex restart` and `reboot` show what they have done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.deploy.restarts import Restart, reboot, restart
from tpuflex.duration import format_roughly
from tpuflex.terminal.boot_bars import boot_bars

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection


def run_restart(invocation: Invocation, *, drains: bool) -> None:
    """Start the server of the stack again, as :func:`restart`, and show that it serves."""
    cloud = _connected(invocation)
    result = restart(cloud, invocation.report, consent=invocation.consent, drains=drains)
    _show(invocation, cloud, result)


def run_reboot(invocation: Invocation) -> None:
    """Boot the machine of the stack again, as :func:`reboot`, and show that it serves."""
    cloud = _connected(invocation)
    _show(invocation, cloud, reboot(cloud, invocation.report, consent=invocation.consent))


def _connected(invocation: Invocation) -> Connection:
    return invocation.connect(invocation.open_deployed(), start=False)


def _show(invocation: Invocation, cloud: Connection, result: Restart) -> None:
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
