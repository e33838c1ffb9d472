"""The way to the stack's host on Google: gcloud, over SSH through IAP."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tpuflex.cli.output import for_stack
from tpuflex.errors import ConflictError, NotFoundError, TpuflexError
from tpuflex.gcloud_commands import GcloudCommand, install, ssh, tunnel
from tpuflex.operate.status import slice_status

if TYPE_CHECKING:
    from tpuflex.cli.cloud import Cloud
    from tpuflex.cli.invocation import Invocation
    from tpuflex.operate.slice import SliceStatus

_INSTALL = "https://cloud.google.com/sdk/docs/install"


def run_ssh(invocation: Invocation, cloud: Cloud) -> None:
    """Open a shell on the host of the stack of ``cloud``.

    Raises:
        TpuflexError: there is no host, no gcloud, or the host is emulated.
        SystemExit: with gcloud's exit code.
    """
    if cloud.stack.embedded:
        raise ConflictError(
            "A host of the embedded cloud is processes of this machine: there is nothing to log "
            "in to.",
            hint=for_stack("`tpuflex logs` shows its log.", cloud.stack.name),
        )
    _run(invocation, cloud, ssh(host_status(cloud).node))


def run_tunnel(invocation: Invocation, cloud: Cloud, local_port: int | None) -> None:
    """Forward ``local_port`` (by default the endpoint's own) to the endpoint, until Ctrl-C.

    Raises:
        TpuflexError: there is no host, no gcloud, or the endpoint is on this machine already.
        SystemExit: with gcloud's exit code.
    """
    settings, name = cloud.stack.settings, cloud.stack.name
    if cloud.stack.embedded:
        raise ConflictError(
            "An endpoint on the embedded cloud is on this machine: it needs no tunnel.",
            hint=for_stack("`tpuflex status` shows its URL.", name),
        )
    status = host_status(cloud)
    if not status.address:
        raise _no_host(cloud, status, "no address")
    port = settings.serving.port
    local = local_port or port
    url = settings.url("127.0.0.1").replace(f":{port}", f":{local}")
    ask = for_stack("tpuflex ask", name)
    invocation.output.progress(f"Until Ctrl-C: {ask} --endpoint {url} …")
    _run(
        invocation, cloud, tunnel(status.node, local_port=local, address=status.address, port=port)
    )


def host_status(cloud: Cloud) -> SliceStatus:
    """The stack's slice, which has a node.

    Raises:
        NotFoundError: there is no slice, or no node yet.
    """
    stack = cloud.stack
    status = slice_status(stack.settings, stack.names, cloud.tpu, recorded=cloud.recorded_zones)
    if not status.node_state:
        raise _no_host(cloud, status, "no host")
    return status


def require_gcloud(command: GcloudCommand, environ: Mapping[str, str]) -> tuple[str, ...]:
    """The words of ``command``, with the path of a gcloud that can run it.

    Raises:
        TpuflexError: there is no gcloud on PATH, it does not work, or lacks the component.
    """
    program = shutil.which("gcloud", path=environ.get("PATH", ""))
    if program is None:
        raise TpuflexError(
            "gcloud is not on PATH.", hint=f"Install it ({_INSTALL}), or type there: {command}"
        )
    # Without the component, gcloud would offer to install it, or wait for an answer.
    asked = subprocess.run(
        [program, "version", "--format=json"],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    try:
        components = json.loads(asked.stdout)
    except ValueError:
        components = None
    if asked.returncode or not isinstance(components, dict):
        raise TpuflexError(
            f"{program} does not work: {asked.stderr.strip()[-300:] or 'it gave no version'}",
            hint="Try: gcloud version",
        )
    if command.component and command.component not in components:
        raise TpuflexError(
            f"{program} lacks the component {command.component}, which alone can go through IAP to "
            "a TPU VM.",
            hint=f"Run: {install(command.component)}",
        )
    return (program, *command.words[1:])


def _run(invocation: Invocation, cloud: Cloud, command: GcloudCommand) -> None:
    words = require_gcloud(command, cloud.environ)
    invocation.output.progress(f"$ {command}")
    raise SystemExit(subprocess.run(words, env=dict(cloud.environ), check=False).returncode)


def _no_host(cloud: Cloud, status: SliceStatus, lacking: str) -> NotFoundError:
    advice = f"{status.advice[:1].upper()}{status.advice[1:]}."
    return NotFoundError(
        f"Stack {cloud.stack.name} has {lacking}: {status.queued_resource} is {status.state}, "
        f"{status.sentence}.",
        hint=for_stack(advice, cloud.stack.name),
    )
