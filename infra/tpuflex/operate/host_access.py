"""A shell on the stack's host, and the endpoint's port on this machine: by gcloud, through IAP."""

from __future__ import annotations

import ipaddress
import shlex
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.errors import ConflictError, TpuflexError
from tpuflex.gcloud_commands import held_tunnel, on_host, program_on_host
from tpuflex.gcloud_commands import ssh as ssh_command
from tpuflex.operate.endpoint_connection import (
    host_status,
    not_there,
    reconnecting,
    require_gcloud,
    tunnel_environment,
)
from tpuflex.operate.host_log import emulated_host
from tpuflex.operate.iap_tunnel import await_own_port
from tpuflex.operate.tunnel_failure import command_failure
from tpuflex.stack.progress import Report, silent

if TYPE_CHECKING:
    from tpuflex.operate.slice import SliceStatus
    from tpuflex.stack.connection import Connection


def ssh(
    cloud: Connection,
    report: Report = silent,
    *,
    words: Sequence[str] = (),
    terminal: bool = False,
) -> int:
    """Open a shell on the host of the stack of ``cloud``, on the terminal of this process, or run
    a command there, with this process's standard input and output.

    Args:
        cloud: the stack's cloud.
        report: receives gcloud's command.
        words: those of the command, each of which the host's shell leaves as it is; of one alone it
            makes what it likes. Empty for a shell.
        terminal: whether the command gets a terminal.

    Returns:
        gcloud's exit code, which is that of the command.

    Raises:
        TpuflexError: there is no host, no gcloud, or the host is emulated on loopback.
    """
    status = host_status(cloud)
    if status.address and ipaddress.ip_address(status.address).is_loopback:
        raise ConflictError(
            "The host is processes of this machine, and has no SSH server: there is nothing to log "
            "in to.",
            hint=Advice(
                "`{logs}` shows its log. Hosts that are made with `tpuflex emulator strictness "
                '\'{{"network": {{"private_addresses": true}}}}\'` have one behind an '
                "emulated IAP."
            ),
        )
    command = ssh_command(status.node)
    if words:
        line = words[0] if len(words) == 1 else shlex.join(words)
        command = on_host(status.node, line, terminal=terminal)
    found = require_gcloud(command, cloud.environ)
    report(f"$ {command}")
    return subprocess.run(found, env=tunnel_environment(cloud), check=False).returncode


@dataclass(frozen=True)
class HostCommand:
    """A command that runs on a host, as it is started here.

    Attributes:
        words: its words here.
        environ: its whole environment here.
        project: the project's id.
    """

    words: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    project: str

    def failure(self, said: str) -> TpuflexError:
        """The error where it, or the way to the host, has failed.

        Args:
            said: what was written on its error output.
        """
        return command_failure(said, self.project)


def host_command(cloud: Connection, status: SliceStatus, line: str) -> HostCommand:
    """What runs ``line`` in the shell of the host of ``status``, with standard input and output.

    Args:
        cloud: the stack's cloud.
        status: its slice, which has an address.
        line: the command.

    Raises:
        TpuflexError: there is no gcloud; or the host is emulated, and nothing runs on it.
    """
    project = cloud.stack.settings.project
    if not ipaddress.ip_address(status.address).is_loopback:
        command = program_on_host(status.node, line)
        words = require_gcloud(command, cloud.environ)
        return HostCommand(words, tunnel_environment(cloud), project)
    # It is processes of this machine, and nothing has to be logged in to.
    from embedded_cloud.machines.hosts.shell import HostShell

    host = emulated_host(cloud, status.node)
    directory = Path(host["root"]).parent if host is not None else None
    shell = directory and HostShell.of(directory, status.node.rpartition("/")[2], sudo=True)
    if not shell:
        raise not_there(cloud, status, "no host that runs")
    return HostCommand(shell.words_of(line), shell.environment, project)


def tunnel(cloud: Connection, local_port: int | None = None, report: Report = silent) -> int:
    """Forward ``local_port`` (by default the endpoint's own) to the endpoint, until Ctrl-C. A
    tunnel that breaks off is opened again.

    Returns:
        gcloud's exit code.

    Raises:
        TpuflexError: there is no host, no gcloud, or the endpoint is on this machine already.
    """
    settings, name = cloud.stack.settings, cloud.stack.name
    status = host_status(cloud)
    if not status.address:
        raise not_there(cloud, status, "no address")
    if ipaddress.ip_address(status.address).is_loopback:
        raise ConflictError(
            "The endpoint is on this machine: it needs no tunnel.",
            hint=Advice("`{status}` shows its URL."),
        )
    port = settings.serving.port
    local = local_port or port
    url = settings.url("127.0.0.1", port=local)
    ask = Advice("{ask}").for_stack(name, cloud.environ)
    try:
        socket.create_server(("127.0.0.1", local)).close()
    except OSError as error:
        raise ConflictError(
            f"Port {local} of this machine cannot be used: {error.strerror}.",
            hint=Advice("Choose another: {tunnel} --port PORT"),
        ) from error
    command = held_tunnel(status.node, local_port=local, address=status.address, port=port)
    words = require_gcloud(command, cloud.environ)
    report(f"$ {command}")

    def hold() -> int:
        # The end of the pipe is the end of the tunnel, even if this process is killed.
        with subprocess.Popen(
            words, env=tunnel_environment(cloud), stdin=subprocess.PIPE
        ) as process:
            try:
                # Said only now: until then another user could listen there, and be sent the key.
                if await_own_port(local, lambda: process.poll() is not None):
                    report(f"Until Ctrl-C: {ask} --url {url} …")
                process.wait()
            except TpuflexError:
                process.terminate()
                raise
        return process.returncode

    return reconnecting(hold, cloud, report)
