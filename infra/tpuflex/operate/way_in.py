"""The way to the stack's host on Google: gcloud, over SSH through IAP."""

from __future__ import annotations

import ipaddress
import socket
import subprocess
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import GcloudCommand, held_tunnel, install, ssh
from tpuflex.operate.gcloud import INSTALL_PAGE, find_gcloud
from tpuflex.operate.status import slice_status
from tpuflex.operate.tunnel import await_own_port
from tpuflex.stack.emulator import Daemon
from tpuflex.terminal.output import for_stack

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection

#: Seconds that a connection must have held to be opened again, and the pause before.
_HELD_S = 60.0
_PAUSE_S = 5.0


def way_in_environment(cloud: Connection) -> dict[str, str]:
    """The environment for gcloud when it connects to a host of ``cloud``. On the embedded cloud it
    goes through an IAP of its own, by the very commands that go through Google's.

    Raises:
        EmulatorError: the embedded cloud has none: its hosts are on loopback, or it is not running.
    """
    environ = dict(cloud.environ)
    if cloud.stack.embedded:
        environ |= Daemon(cloud.stack.project.home).tunnel_environment()
    return environ


def run_ssh(invocation: Invocation, cloud: Connection) -> None:
    """Open a shell on the host of the stack of ``cloud``.

    Raises:
        TpuflexError: there is no host, no gcloud, or the host is emulated on loopback.
        SystemExit: with gcloud's exit code.
    """
    status = host_status(cloud)
    if status.address and ipaddress.ip_address(status.address).is_loopback:
        raise ConflictError(
            "The host is processes of this machine, and has no SSH server: there is nothing to log "
            "in to.",
            hint=for_stack(
                "`tpuflex logs` shows its log. Hosts that are made with `tpuflex emulator "
                'strictness \'{"network": {"private_addresses": true}}\'` have one behind an '
                "emulated IAP.",
                cloud.stack.name,
            ),
        )
    _run(invocation, cloud, ssh(status.node))


def run_tunnel(invocation: Invocation, cloud: Connection, local_port: int | None) -> None:
    """Forward ``local_port`` (by default the endpoint's own) to the endpoint, until Ctrl-C. A
    tunnel that breaks off is opened again.

    Raises:
        TpuflexError: there is no host, no gcloud, or the endpoint is on this machine already.
        SystemExit: with gcloud's exit code.
    """
    settings, name = cloud.stack.settings, cloud.stack.name
    status = host_status(cloud)
    if not status.address:
        raise not_there(cloud, status, "no address")
    if ipaddress.ip_address(status.address).is_loopback:
        raise ConflictError(
            "The endpoint is on this machine: it needs no tunnel.",
            hint=for_stack("`tpuflex status` shows its URL.", name),
        )
    port = settings.serving.port
    local = local_port or port
    url = settings.url("127.0.0.1", port=local)
    ask = for_stack("tpuflex ask", name)
    try:
        socket.create_server(("127.0.0.1", local)).close()
    except OSError as error:
        raise ConflictError(
            f"Port {local} of this machine cannot be used: {error.strerror}.",
            hint=for_stack("Choose another: tpuflex tunnel", name) + " --port PORT",
        ) from error
    command = held_tunnel(status.node, local_port=local, address=status.address, port=port)
    words = require_gcloud(command, cloud.environ)
    invocation.output.progress(f"$ {command}")

    def hold() -> int:
        # The end of the pipe is the end of the tunnel, even if this process is killed.
        with subprocess.Popen(
            words, env=way_in_environment(cloud), stdin=subprocess.PIPE
        ) as process:
            try:
                # Said only now: until then another user could listen there, and be sent the key.
                if await_own_port(local, lambda: process.poll() is not None):
                    invocation.output.progress(f"Until Ctrl-C: {ask} --endpoint {url} …")
                process.wait()
            except TpuflexError:
                process.terminate()
                raise
        return process.returncode

    raise SystemExit(kept_up(hold, cloud, invocation))


def host_status(cloud: Connection) -> SliceStatus:
    """The stack's slice, which has a node.

    Raises:
        NotFoundError: there is no slice, or no node yet.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    if not status.node_state:
        raise not_there(cloud, status, "no host")
    return status


def require_gcloud(command: GcloudCommand, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of ``command``, with the path of a gcloud that can run it.

    Raises:
        TpuflexError: there is no gcloud on PATH, it does not work, or lacks the component.
    """
    gcloud = find_gcloud(environ)
    if gcloud is None:
        raise TpuflexError(
            "gcloud is not on PATH.", hint=f"Install it ({INSTALL_PAGE}), or type there: {command}"
        )
    # Without the component, gcloud would offer to install it, or wait for an answer.
    if command.component and command.component not in gcloud.components:
        raise TpuflexError(
            f"{gcloud.program} lacks the component {command.component}, which alone can go through "
            "IAP to a TPU VM.",
            hint=f"Run: {install(command.component)}",
        )
    return (gcloud.program, *command.words[1:])


def _run(invocation: Invocation, cloud: Connection, command: GcloudCommand) -> None:
    words = require_gcloud(command, cloud.environ)
    invocation.output.progress(f"$ {command}")
    done = subprocess.run(words, env=way_in_environment(cloud), check=False)
    raise SystemExit(done.returncode)


def kept_up(run: Callable[[], int], cloud: Connection, invocation: Invocation) -> int:
    """Run a connection again whenever it breaks off after it has held for a while.

    gcloud itself tries ten times to connect, and again after a break; one that ends sooner has a
    reason that does not pass.

    Args:
        run: runs it until it ends; returns its exit code.
        cloud: has the clock.
        invocation: where it is said.

    Returns:
        The exit code of the last one: 0, or the one of a connection that did not hold.
    """
    while True:
        began = cloud.timing.monotonic()
        code = run()
        if code == 0 or cloud.timing.monotonic() - began < _HELD_S:
            return code
        invocation.output.progress(
            f"The connection broke off (exit code {code}): once more in {_PAUSE_S:.0f} s."
        )
        cloud.sleep(_PAUSE_S)


def not_there(cloud: Connection, status: SliceStatus, lacking: str) -> NotFoundError:
    """The error for a stack whose slice is not as far as to have what is ``lacking``."""
    return NotFoundError(
        f"Stack {cloud.stack.name} has {lacking}: {status.queued_resource} is {status.state}, "
        f"{status.sentence}.",
        hint=for_stack(status.advice_sentence, cloud.stack.name),
    )
