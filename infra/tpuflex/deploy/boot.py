"""The part of `tpuflex up` after the engine: wait until the host serves."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from tpuflex import gcloud_commands
from tpuflex.cli.endpoint.logs import emulated_log
from tpuflex.errors import BootError, CapacityError, EmulatorError, InterruptedByUser
from tpuflex.google.host_reports import observe_host
from tpuflex.host.boot_wait import AGAIN, BootDeadlines, BootWait, SaidAnew
from tpuflex.host.report import HostReport
from tpuflex.operate.slice import SliceStatus
from tpuflex.operate.status import slice_status
from tpuflex.queued_resource.states import Lifecycle
from tpuflex.terminal.output import Output, for_stack
from tpuflex.terminal.spinner import Spinner

if TYPE_CHECKING:
    from tpuflex.cli.invocation import Invocation
    from tpuflex.stack.connection import Connection


#: Without a terminal, seconds of silence after which a line says that the phase goes on.
_HEARTBEAT_SECONDS = 30.0


class HostProgress(Spinner):
    """Shows the phases of a boot: a spinner with the time on a terminal, plain lines otherwise."""

    def __init__(self, output: Output, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(output, "host: starting")
        self._clock = clock
        self._phase = ""
        self._detail = ""
        self._isolation = ""
        self._since = clock()
        self._said = clock()

    def changed(self, report: HostReport) -> None:
        """Show a new report of the host."""
        if report.phase != self._phase:
            self._phase, self._since = report.phase, self._clock()
            self._line(f"  host     {report.phase}{_after(report.detail)}")
        elif report.detail != self._detail and self._status is None:
            self._line(f"  host     {report.phase}{_after(report.detail)}")
        if report.isolation.startswith("privileged") and report.isolation != self._isolation:
            self._line(f"  host     the server is {report.isolation}")
        self._detail, self._isolation = report.detail, report.isolation
        self.tick()

    def refused(self, why: str) -> None:
        """Show that the host's report cannot be read, and is asked for again."""
        self._line(f"  host     its report cannot be read, asking again: {why}")

    def tick(self) -> None:
        """Show that time passes."""
        now = self._clock()
        waiting = f"{self._phase or 'starting'}{_after(self._detail)} ({now - self._since:.0f} s)"
        if self._status is not None:
            self.redraw(f"host: {waiting}")
        elif now - self._said >= _HEARTBEAT_SECONDS:
            self._line(f"  host     {waiting}")

    def _line(self, text: str) -> None:
        self._said = self._clock()
        self.line(text)


def _after(detail: str) -> str:
    return f": {detail}" if detail else ""


#: Seconds between two questions for a host's report. Google allows ten a minute
#: (https://cloud.google.com/compute/docs/metadata/manage-guest-attributes#limitations).
_POLL_SECONDS = 10.0
#: The same on the embedded cloud, whose hosts boot in seconds.
_EMBEDDED_POLL_SECONDS = 0.25


def wait_ready(invocation: Invocation, cloud: Connection) -> SliceStatus:
    """Wait until the host has served a completion, showing its phases.

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
    with HostProgress(invocation.output) as progress:

        def observe() -> HostReport | None:
            progress.tick()
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
            changed=progress.changed,
            refused=progress.refused,
            log=log,
            serves=SaidAnew(cloud.timing.monotonic, f"The host's log: {log}\n{AGAIN}"),
        )
        try:
            report = wait.run()
        except KeyboardInterrupt as error:
            raise InterruptedByUser(
                "Stopped waiting; the slice is running and its host goes on booting.",
                hint="`tpuflex up` goes on waiting, `tpuflex status` shows the state, `tpuflex "
                "down` ends it.",
            ) from error
    return replace(slice_status(cloud.stack.settings, cloud.stack.names, cloud.tpu), host=report)


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
        raise CapacityError(text, hint=status.advice_sentence)
    if status.lifecycle is not Lifecycle.ACTIVE:
        raise BootError(text, hint=status.advice_sentence)


def host_log(cloud: Connection, status: SliceStatus) -> str:
    """Where to read the host's log: a file, or the command that shows it."""
    if cloud.stack.embedded:
        path = None
        with suppress(EmulatorError):  # it is only said where the log is, should the boot fail
            path = emulated_log(cloud, status.node)
        return str(path) if path else for_stack("`tpuflex logs`", cloud.stack.name)
    command = gcloud_commands.host_log(status.node, lines=50)
    return for_stack(f"`tpuflex logs`, or {command} {command.hint}", cloud.stack.name)
