"""The engine's progress, resource by resource."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from textwrap import wrap
from types import TracebackType

from tpuflex.engine.events import Failed, Finished, Note, Progress, Started, Step
from tpuflex.naming import QUEUED_RESOURCE
from tpuflex.terminal.output import Output
from tpuflex.terminal.spinner import Spinner

#: Aligns a line with the text after the first word of the lines above.
_INDENT = " " * 11

#: The longest time without a line about a wait in a log, in seconds: automation kills a job that
#: is silent for ten minutes, but one line a minute would be ten thousand lines in a week.
_LONGEST_SILENCE = 300.0
#: Fraction of the wait so far that may pass without a line.
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
    ``stopped`` says whether the user pressed Ctrl-C; ``shown`` are the notes that the preview
    has shown already.
    """

    def __init__(
        self,
        output: Output,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        stopped: Callable[[], bool] = lambda: False,
        shown: frozenset[str] = frozenset(),
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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._output.end_bar()
        super().__exit__(kind, error, traceback)

    def listen(self, progress: Progress) -> None:
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
        return wrap(text, max(width, 2 * len(_INDENT)), subsequent_indent=_INDENT)

    def _redraw(self, what: str) -> None:
        self.redraw(f"Resources {self._done} of {self._total}  {what}")


def _label(step: Step) -> str:
    return f"{step.type.rpartition(':')[2]} {step.name}"
