"""The engine's progress, told by phase: resources, the queue, the host."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from textwrap import wrap
from types import TracebackType

from tpuflex.cli.output import Output
from tpuflex.cli.spinner import Spinner
from tpuflex.engine.events import Failed, Finished, Note, Progress, Started, Step, Totals
from tpuflex.naming import QUEUED_RESOURCE

#: What stands under the word that begins a line.
_INDENT = " " * 11

#: Seconds without a line about a wait, in a log, at most: automation that sees nothing for ten
#: minutes takes a job for dead. A week of one line a minute would be ten thousand lines.
_LONGEST_SILENCE = 300.0
#: Part of the wait so far that may pass without a line.
_THINNING = 0.05


_DONE = {
    "create": "created",
    "update": "changed",
    "delete": "deleted",
    "replace": "replaced",
    "create-replacement": "created",
    "delete-replaced": "deleted",
}


class LiveProgress(Spinner):
    """Shows the engine's progress: redrawn in place on a terminal, plain lines otherwise.

    Use as a context manager around the operation and pass :meth:`listen` to the engine;
    ``stopped`` says whether the user pressed Ctrl-C, ``told`` are the notes that the plan has
    shown.
    """

    def __init__(
        self,
        output: Output,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        stopped: Callable[[], bool] = lambda: False,
        told: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(output, "Starting …")
        self._total = total
        self._clock = clock
        self._began: dict[str, float] = {}
        self._done = 0
        self._last_note = ""
        self._told = told
        # Of each resource that waits: when its first passing note came, and the last one shown.
        self._waits: dict[str, tuple[float, float]] = {}
        self._stopped = stopped
        # The engine's events come on threads of its event server.
        self._lock = threading.Lock()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._output.end_bar()
        super().__exit__(kind, error, traceback)

    def listen(self, progress: Progress) -> None:
        """Take one piece of progress."""
        with self._lock:
            match progress:
                case Started(step) if step.touches_cloud:
                    self._started(step)
                case Finished(step) if step.touches_cloud:
                    self._finished(step)
                case Failed(step) if step.custom:
                    # What Ctrl-C broke off did not fail: a request stays in the queue.
                    word = "stopped" if self._stopped() else "failed"
                    self._line(f"  {word:8} {_label(step)}")
                case Note():
                    self._note(progress)
                case Totals():
                    pass
                case _:
                    pass

    def say(self, text: str) -> None:
        """A line of our own between the engine's."""
        with self._lock:
            self._line(text)

    def _started(self, step: Step) -> None:
        self._began.setdefault(step.urn, self._clock())
        if step.type == QUEUED_RESOURCE and step.operation.startswith("create"):
            self._line(f"  asking   {_label(step)}")
        self._redraw(_label(step))

    def _finished(self, step: Step) -> None:
        self._done += 1
        seconds = self._clock() - self._began.pop(step.urn, self._clock())
        word = _DONE.get(step.operation, step.operation)
        if self._status is None or self._output.verbose or step.type == QUEUED_RESOURCE:
            self._line(f"  {word:8} {_label(step)} ({seconds:.1f} s)")
        self._redraw("")

    def _note(self, note: Note) -> None:
        if note.severity == "error":
            return  # reported as a whole at the end
        text = f"{note.name}: {note.text}" if note.name else note.text
        if text == self._last_note or (note.text in self._told and not note.passing):
            return
        self._last_note = text
        self._redraw(text)
        if not note.passing or (self._status is None and self._due(note.name)):
            prefix = "  warning  " if note.severity == "warning" else _INDENT
            self._line(prefix + text)

    def _due(self, name: str) -> bool:
        """Whether a log gets this passing note about ``name``: ever more seldom."""
        now = self._clock()
        first, last = self._waits.get(name, (now, float("-inf")))
        # The notes come by a clock of their own: one that is early by a moment is not put off.
        due = now - last >= min(_LONGEST_SILENCE, (now - first) * _THINNING) - 1.0
        self._waits[name] = (first, now if due else last)
        return due

    def _line(self, text: str) -> None:
        if self._status is not None:
            # Wrapped below its text; a terminal would go on in the first column.
            width = max(self._status.console.width, 2 * len(_INDENT))
            for line in wrap(text, width, subsequent_indent=_INDENT):
                self._status.console.print(line, markup=False, highlight=False)
        else:
            self._output.progress(text)

    def _redraw(self, what: str) -> None:
        self.redraw(f"Resources {self._done} of {self._total}  {what}")


def _label(step: Step) -> str:
    return f"{step.type.rpartition(':')[2]} {step.name}"
