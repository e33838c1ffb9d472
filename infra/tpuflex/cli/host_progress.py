"""Shows a host's boot: each phase once, and a heartbeat in between."""

from __future__ import annotations

import time
from collections.abc import Callable

from tpuflex.cli.output import Output
from tpuflex.cli.spinner import Spinner
from tpuflex.host.report import HostReport

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
