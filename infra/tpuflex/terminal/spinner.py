"""A line at the bottom of the terminal that is redrawn while something goes on.

Rich reads markup such as ``[link=…]`` and ``:name:`` in strings; in a ``Text`` it reads none.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Self

from pulumi_plugin.printable import printable
from tpuflex.terminal.output import Output, one_line

if TYPE_CHECKING:
    from rich.status import Status

#: Columns that the spinning sign takes.
_SIGN = 2


class Spinner:
    """Shows what is going on in one line, redrawn in place; nothing without a terminal.

    Use as a context manager around the work.

    Args:
        output: where it is shown.
        first: the line's first text.
    """

    def __init__(self, output: Output, first: str) -> None:
        self._output = output
        self._first = first
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._output.live:
            self._status = self._output.console().status(self._first)
            self._status.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
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
