"""The output of the commands: results on standard output, progress on standard error.

With ``--json`` standard output is exactly one JSON document. Without a terminal there is no
colour, and progress is plain lines, fit for a CI log. Hosts, services, models and file names put
words into all of it, so no text is shown but through :func:`~pulumi_plugin.printable.printable`;
JSON escapes for itself.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, TextIO

import click

from pulumi_plugin.printable import printable
from tpuflex.errors import InterruptedByUser, SettingsError, TpuflexError
from tpuflex.naming import DEFAULT_STACK

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as TransferBar
    from rich.text import Text

#: Seconds between two lines about a transfer when there is no terminal.
_PLAIN_INTERVAL = 5.0


class Output:
    """Writes for one run of the command line.

    Args:
        json: whether standard output is for scripts.
        verbose: whether every resource and message is shown.
        stack: the stack that commands in advice are completed with.
        environ: the environment that they are typed in.
        rehearsing: whether documents say that nothing of this is on Google.
        clock: seconds on a monotonic clock.
    """

    def __init__(
        self,
        *,
        json: bool,
        verbose: bool,
        stack: str = DEFAULT_STACK,
        environ: Mapping[str, str] = os.environ,
        rehearsing: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stack = stack
        self._environ = environ
        self.json = json
        self.verbose = verbose
        self._rehearsing = rehearsing
        self._clock = clock
        self._documented = False
        self._last_piece = ""
        self._bar: TransferBar | None = None

    @property
    def live(self) -> bool:
        """Whether progress may be redrawn in place."""
        return sys.stderr.isatty() and not self.json

    @property
    def ascii_only(self) -> bool:
        """Whether standard output shows ASCII alone."""
        return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")

    def result(self, text: str = "") -> None:
        """Print a line of the result; nothing with ``--json``."""
        if not self.json:
            click.echo(printable(text, lines=True))

    def piece(self, text: str) -> None:
        """Print a piece of the result without a line break; nothing with ``--json``."""
        if not self.json:
            click.echo(printable(text, lines=True, after=self._last_piece), nl=False)
            self._last_piece = text

    def document(self, value: object) -> None:
        """Print the result as JSON; nothing without ``--json``. Only the first document is printed:
        a failure after it shows in the exit code and on standard error."""
        if self.json and not self._documented:
            self._documented = True
            if self._rehearsing and isinstance(value, dict):
                value = {"rehearsal": True, **value}
            click.echo(json.dumps(value, indent=2, sort_keys=True, default=str))

    def progress(self, text: str) -> None:
        """Print a line about what is going on."""
        click.echo(printable(text, lines=True), err=True)

    def heading(self, text: str) -> None:
        """Print a heading of the result."""
        if not self.json:
            shown = printable(text)
            click.echo(click.style(shown, bold=True) if self._coloured(sys.stdout) else shown)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table of the result."""
        if not self.json:
            for line in table_lines(header, list(rows)):
                click.echo(line)

    def drawing(self, draw: Callable[[int, bool], Iterable[Text]]) -> None:
        """Print lines that ``draw`` makes for so many columns, with ASCII only if that is True.

        Their text is shown as it is, so nothing foreign may be in it.
        """
        if self.json:
            return
        from rich.console import Console

        console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
        for line in draw(console.width, self.ascii_only):
            console.print(line)

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print a block of ``name  value`` lines of the result; empty values are left out."""
        present = [(name, value) for name, value in facts if value]
        width = max((len(name) for name, _ in present), default=0)
        for name, value in present:
            indented = value.replace("\n", f"\n{' ' * (width + 4)}")
            self.result(f"  {name:<{width}}  {indented}")

    def confirm(self, question: str, *, expected: str = "") -> None:
        """Ask on standard error; return only on yes (or if the ``expected`` word was typed).

        Raises:
            InterruptedByUser: the answer was anything else.
            click.Abort: Ctrl-C, or the end of the input.
            click.UsageError: there is no terminal to ask on.
        """
        if not sys.stdin.isatty():
            raise click.UsageError("There is no terminal to ask on: add --yes to go ahead.")
        question = printable(question)
        if not expected:
            agreed = click.confirm(question, err=True)
        else:
            answer = click.prompt(question, err=True, default="", show_default=False)
            agreed = answer == expected
        if not agreed:
            reason = f"the answer was not {expected!r}" if expected else "you did not agree"
            raise InterruptedByUser(f"Nothing was done: {reason}.")

    def confirm_name(self, what: str, name: str) -> None:
        """Return only if ``name`` was typed, which is ``what``, such as ``stack's name``; raises as
        :meth:`confirm`."""
        self.confirm(f"Type the {what} ({name}) to go ahead", expected=name)

    def failure(self, error: TpuflexError) -> int:
        """Show an error and return the exit code of its kind."""
        hint = error.hint.for_stack(self._stack, self._environ)
        label = click.style("Error:", fg="red", bold=True)
        message = printable(error.message, lines=True)
        click.echo(f"{label if self._coloured(sys.stderr) else 'Error:'} {message}", err=True)
        if hint:
            self.progress(hint)
        if self.json:
            self.document(
                {
                    "error": {**error.to_json(), "hint": hint, **_findings(error)},
                }
            )
        return error.exit_code

    @contextmanager
    def transfer(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """Show the progress of a transfer: a bar on a terminal, a line now and then in a log.

        Yields a function that takes the bytes done and the bytes in total.
        """
        if self.live:
            with _bar(what, self.console()) as self._bar:
                yield partial(_advance, self._bar)
        else:
            yield self._transfer_lines(what)

    def end_bar(self) -> None:
        """Stop drawing the bar of a transfer, which another thread may still be running."""
        if self._bar is not None:
            self._bar.stop()

    def console(self) -> Console:
        """The terminal on standard error."""
        from rich.console import Console

        return Console(stderr=True)

    def _transfer_lines(self, what: str) -> Callable[[int, int], None]:
        at, whole = -_PLAIN_INTERVAL, False

        def show(done: int, total: int) -> None:
            nonlocal at, whole
            now = self._clock()
            if (done >= total and not whole) or now - at >= _PLAIN_INTERVAL:
                at, whole = now, done >= total
                self.progress(f"{what}: {megabytes(done)} of {megabytes(total)} MB")

        return show

    def _coloured(self, stream: TextIO) -> bool:
        return stream.isatty()


def _findings(error: TpuflexError) -> dict[str, object]:
    """What is wrong with a file, key by key, where that is the error."""
    if not isinstance(error, SettingsError):
        return {}
    return {"findings": [finding.to_json() for finding in error.findings]}


@contextmanager
def _bar(what: str, console: Console) -> Iterator[TransferBar]:
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), DownloadColumn())
    with Progress(*columns, TransferSpeedColumn(), console=console) as progress:
        progress.add_task(printable(what), total=None)
        yield progress


def _advance(bar: TransferBar, done: int, total: int) -> None:
    bar.update(bar.task_ids[0], completed=done, total=total)


def one_line(text: str, width: int) -> str:
    """``text`` truncated to ``width`` columns: a line that is redrawn in place must not wrap."""
    return text if len(text) <= width else f"{text[: max(width - 1, 0)].rstrip()}…"


def megabytes(count: int) -> str:
    """Bytes as megabytes with one decimal."""
    return f"{count / 1e6:.1f}"


def moment_text(then: datetime | None, now: datetime) -> str:
    """A time in the machine's time zone, and how far that is from ``now``; empty for none."""
    if then is None:
        return ""
    minutes = max(0, int((then - now).total_seconds()) // 60)
    moment = then.astimezone().strftime("%Y-%m-%d %H:%M %Z")
    return f"{moment} (in {minutes // 60} h {minutes % 60:02} min)"


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a plain table: two spaces between columns, no trailing spaces.

    A row is one line, whatever is in its cells.
    """
    grid = [tuple(map(printable, row)) for row in (header, *rows)]
    widths = [max(len(row[i]) for row in grid) for i in range(len(header))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in grid
    ]
