"""The part of `tpuflex up` after the engine: wait until the host serves."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex import gcloud_commands
from tpuflex.advice import Advice
from tpuflex.errors import BootError, CapacityError, EmulatorError, InterruptedByUser
from tpuflex.google.queued_resources import observe_host
from tpuflex.host.boot_wait import AGAIN, BootDeadlines, BootWait, SaidAnew
from tpuflex.host.report import HostReport
from tpuflex.operate.host_log import emulated_log
from tpuflex.operate.slice import SliceStatus, slice_status
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.stack.progress import (
    BootBegan,
    BootEnded,
    BootGoesOn,
    BootReported,
    BootUnread,
    Report,
    silent,
)

if TYPE_CHECKING:
    from tpuflex.stack.connection import Connection


#: Seconds between two questions for a host's report. Google allows ten a minute
#: (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes#limitations).
_POLL_SECONDS = 10.0
#: The same on the embedded cloud, whose hosts boot in seconds.
_EMBEDDED_POLL_SECONDS = 0.25


def wait_ready(cloud: Connection, report: Report = silent) -> SliceStatus:
    """Wait until the host has served a completion, telling its phases.

    Raises:
        CapacityError: the request is still waiting.
        FailedBootError: the host failed, or says nothing.
        BootError: the host took longer than ``timeouts.ready``, or its run is over.
        AccessError, ApiError: whether it serves cannot be read.
    """
    status = _running(cloud)
    if status.host is not None and status.host.serves_at(cloud.now().timestamp()):
        return status
    timeouts = cloud.stack.settings.slice.timeouts
    quick = cloud.stack.embedded and not cloud.stack.rehearsed
    log = host_log(cloud, status)
    report(BootBegan())
    try:

        def observe() -> HostReport | None:
            report(BootGoesOn())
            return observe_host(status.node, cloud.tpu)

        wait = BootWait(
            observe,
            look=lambda: _running(cloud),
            deadlines=BootDeadlines(
                first_report=timeouts.first_report.total_seconds(),
                ready=timeouts.ready.total_seconds(),
                poll=_EMBEDDED_POLL_SECONDS if quick else _POLL_SECONDS,
            ),
            now=cloud.timing.monotonic,
            sleep=cloud.sleep,
            changed=lambda said: report(BootReported(said)),
            refused=lambda why: report(BootUnread(why)),
            log=log,
            serves=SaidAnew(
                cloud.timing.monotonic,
                Advice("The host's log: {log}\n{again}", log=log, again=AGAIN),
            ),
        )
        try:
            ready = wait.run()
        except KeyboardInterrupt as error:
            raise InterruptedByUser(
                "Stopped waiting; the slice is running and its host goes on booting.",
                hint=Advice(
                    "`{up}` goes on waiting, `{status}` shows the state, `{down}` ends it."
                ),
            ) from error
    finally:
        report(BootEnded())
    return replace(slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu), host=ready)


def _running(cloud: Connection) -> SliceStatus:
    """The slice, which has hosts.

    Raises:
        NotFoundError: there is none.
        CapacityError, BootError: it has no hosts.
    """
    status = slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu)
    require_active(status)
    return status


def require_active(status: SliceStatus) -> None:
    """Check that there are hosts to wait for.

    Raises:
        CapacityError: the request is still waiting.
        BootError: there are no hosts, and somebody has to act.
    """
    text = f"{status.queued_resource} in {status.zone} is {status.state}: {status.sentence}."
    if status.lifecycle in (Lifecycle.WAITING, Lifecycle.PROVISIONING):
        raise CapacityError(text, hint=status.advice.sentence())
    if status.lifecycle is not Lifecycle.ACTIVE:
        raise BootError(text, hint=status.advice.sentence())


def host_log(cloud: Connection, status: SliceStatus) -> Advice:
    """Where to read the host's log: a file, or the command that shows it."""
    if cloud.stack.embedded:
        path = None
        with suppress(EmulatorError):  # it is only said where the log is, should the boot fail
            path = emulated_log(cloud, status.node)
        return Advice.of(str(path)) if path else Advice("`{logs}`")
    command = gcloud_commands.host_log(status.node, lines=50)
    return Advice("`{logs}`, or {command} {described}", command=command, described=command.hint)
