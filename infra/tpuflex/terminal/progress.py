"""What is going on, as it is told: lines, transfers, the engine's progress, a host's boot.

Rich reads markup such as ``[link=…]`` and ``:name:`` in strings; in a ``Text`` it reads none.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable
from contextlib import ExitStack
from textwrap import wrap
from types import TracebackType
from typing import TYPE_CHECKING, Self

from pulumi_plugin.printable import printable
from tpuflex.codes import Code
from tpuflex.engine.events import Failed, Finished, Note, Started, Step, Totals
from tpuflex.host.report import HostReport
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.stack.progress import (
    BootBegan,
    BootEnded,
    BootGoesOn,
    BootReported,
    BootUnread,
    EngineBegan,
    EngineEnded,
    Progress,
    Transfer,
    TransferBegan,
    TransferEnded,
    WorkBegan,
    WorkEnded,
)
from tpuflex.terminal.output import Output, one_line

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text

    from tpuflex.engine.events import RunProgress as EngineEvent

#: Columns that the spinning sign takes.
_SIGN = 2
#: Aligns a line with the text after the first word of the lines above.
_INDENT = " " * 11

#: The longest time without a line about a wait in a log, in seconds: automation kills a job that
#: is silent for ten minutes, but one line a minute would be ten thousand lines in a week.
_LONGEST_SILENCE = 300.0
#: Fraction of the wait so far that may pass without a line.
_THINNING = 0.05

#: Without a terminal, seconds of silence after which a line says that the phase goes on.
_HEARTBEAT_SECONDS = 30.0

_DONE = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "created",
    "delete-replaced": "deleted",
}


class Elapsed:
    """What is being done and since when, as rich draws it again and again."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = printable(what)
        self._clock = clock
        self._began = clock()

    def __rich__(self) -> Text:
        from rich.text import Text

        return Text(f"{self._what} … {self._clock() - self._began:.0f} s")


class Spinner:
    """Shows what is going on in one line, redrawn in place; nothing without a terminal.

    Use as a context manager around the work, or :meth:`start` and :meth:`close` it.

    Args:
        output: where it is shown.
        first: the line's first text.
    """

    def __init__(self, output: Output, first: str | Elapsed) -> None:
        self._output = output
        self._first = first
        self._status: Status | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin to show it."""
        if self._output.live:
            self._status = self._output.console().status(self._first)
            self._status.start()

    def close(self) -> None:
        """Stop showing it."""
        if self._status is not None:
            self._status.stop()

    def redraw(self, text: str) -> None:
        """Show ``text``, truncated to the terminal's width."""
        if self._status is not None:
            from rich.text import Text

            width = self._status.console.width - _SIGN
            self._status.update(Text(one_line(printable(text), width)))

    def line(self, text: str) -> None:
        """Print ``text`` above the line that is redrawn, or as progress where there is none."""
        if self._status is None:
            self._output.progress(text)
            return
        from rich.text import Text

        console = self._status.console
        for each in self.wrapped(printable(text, lines=True), console.width):
            console.print(Text(each))

    def wrapped(self, text: str, width: int) -> list[str]:
        """``text`` in lines for a terminal of ``width`` columns; rich breaks what is longer."""
        del width
        return [text]


class EngineProgress(Spinner):
    """Shows the engine's progress: redrawn in place on a terminal, plain lines otherwise.

    Use as a context manager around the operation and pass :meth:`listen` to the engine;
    ``stopped`` says whether the user pressed Ctrl-C; ``shown`` are the notes that were shown
    before.
    """

    def __init__(
        self,
        output: Output,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        stopped: Callable[[], bool] = lambda: False,
        shown: Collection[str] = (),
    ) -> None:
        super().__init__(output, "Starting …")
        self._total = total
        self._clock = clock
        self._began: dict[str, float] = {}
        self._done = 0
        self._last_note = ""
        self._shown = shown
        # For each waiting resource: times of its first transient note and of the last one shown.
        self._waits: dict[str, tuple[float, float]] = {}
        self._stopped = stopped
        # The engine's events come on threads of its event server.
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop showing it, and a bar that another thread may still be drawing."""
        self._output.end_bar()
        super().close()

    def listen(self, progress: EngineEvent) -> None:
        """Show one event of the engine."""
        with self._lock:
            match progress:
                case Started(step) if step.touches_cloud:
                    self._started(step)
                case Finished(step) if step.touches_cloud:
                    self._finished(step)
                case Failed(step) if step.custom:
                    # Interrupted by Ctrl-C is not failed: a request stays in the queue.
                    word = "stopped" if self._stopped() else "failed"
                    self.line(f"  {word:8} {_label(step)}")
                case Note():
                    self._note(progress)
                case _:
                    pass

    def say(self, text: str) -> None:
        """Print a line of our own between the engine's."""
        with self._lock:
            self.line(text)

    def _started(self, step: Step) -> None:
        self._began.setdefault(step.urn, self._clock())
        if step.type == QUEUED_RESOURCE and step.operation.startswith("create"):
            self.line(f"  request  {_label(step)}")
        self._redraw(_label(step))

    def _finished(self, step: Step) -> None:
        self._done += 1
        seconds = self._clock() - self._began.pop(step.urn, self._clock())
        word = _DONE.get(step.operation, step.operation)
        if self._status is None or self._output.verbose or step.type == QUEUED_RESOURCE:
            self.line(f"  {word:8} {_label(step)} ({seconds:.1f} s)")
        self._redraw("")

    def _note(self, note: Note) -> None:
        if note.severity == "error":
            return  # the error is reported once, at the end
        text = f"{note.name}: {note.text}" if note.name else note.text
        if text == self._last_note or (note.text in self._shown and not note.passing):
            return
        self._last_note = text
        self._redraw(text)
        if not note.passing or (self._status is None and self._due(note.name)):
            prefix = "  warning  " if note.severity == "warning" else _INDENT
            self.line(prefix + text)

    def _due(self, name: str) -> bool:
        """Whether to log this transient note about ``name``: less and less often."""
        now = self._clock()
        first, last = self._waits.get(name, (now, float("-inf")))
        # The notes have a clock of their own: one that is slightly early is not postponed.
        due = now - last >= min(_LONGEST_SILENCE, (now - first) * _THINNING) - 1.0
        self._waits[name] = (first, now if due else last)
        return due

    def wrapped(self, text: str, width: int) -> list[str]:
        """``text`` wrapped below itself; the terminal would continue in the first column."""
        columns = max(width, 2 * len(_INDENT))
        return wrap(text, columns, subsequent_indent=_INDENT, break_on_hyphens=False)

    def _redraw(self, what: str) -> None:
        # A run may do more than was planned: what is replaced, what another has changed.
        of = f" of {self._total}" if self._done <= self._total else ""
        self.redraw(f"Resources {self._done}{of}  {what}")


def _label(step: Step) -> str:
    return f"{step.type.rpartition(':')[2]} {step.name}"


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

    def listen(self, progress: BootReported | BootUnread | BootGoesOn) -> None:
        """Show what the wait tells."""
        match progress:
            case BootReported(report):
                self.changed(report)
            case BootUnread(why):
                self.refused(why)
            case BootGoesOn():
                self.tick()

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


class Display:
    """Shows what functions tell while they work, as the callback that they are given.

    Args:
        output: where it is shown.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._shown: set[str] = set()
        self._engine: EngineProgress | None = None
        self._host: HostProgress | None = None
        self._work: Spinner | None = None
        self._bar: Callable[[int, int], None] | None = None
        self._open_bar = ExitStack()

    def shown(self, notes: Iterable[str]) -> None:
        """Do not show these notes of the engine: they are shown already."""
        self._shown.update(notes)

    def __call__(self, progress: Progress) -> None:
        """Show it."""
        match progress:
            case str():
                self._line(progress)
            case WorkBegan(what):
                self._end_work()
                self._work = Spinner(self._output, Elapsed(what))
                self._work.start()
            case WorkEnded():
                self._end_work()
            case TransferBegan(what):
                self._end_work()
                self._bar = self._open_bar.enter_context(self._output.transfer(what))
            case Transfer(_, done, total) if self._bar is not None:
                self._bar(done, total)
            case TransferEnded():
                self._bar = None
                self._open_bar.close()
            case EngineBegan(total, stopped):
                self._end_work()
                self._engine = EngineProgress(
                    self._output, total, stopped=stopped, shown=self._shown
                )
                self._engine.start()
            case EngineEnded() if self._engine is not None:
                self._engine.close()
                self._engine = None
            case BootBegan():
                self._end_work()
                self._host = HostProgress(self._output)
                self._host.start()
            case BootEnded() if self._host is not None:
                self._host.close()
                self._host = None
            case BootReported() | BootUnread() | BootGoesOn() if self._host is not None:
                self._host.listen(progress)
            case Started() | Finished() | Failed() | Note() | Totals():
                self._event(progress)
            case _:
                pass

    def _end_work(self) -> None:
        if self._work is not None:
            self._work.close()
            self._work = None

    def _line(self, text: str) -> None:
        if self._engine is not None:
            self._engine.say(text)
        elif self._work is not None:
            self._work.line(text)
        else:
            self._output.progress(text)

    def _event(self, event: EngineEvent) -> None:
        if self._engine is not None:
            self._engine.listen(event)
        elif isinstance(event, Note) and event.text not in self._shown:
            self._shown.add(event.text)
            if event.code is not Code.RUN_OVER:  # the plan shows that on a line of its own
                word = "warning" if event.severity == "warning" else ""
                self._line(f"  {word:8} {event.name}: {event.text}")
