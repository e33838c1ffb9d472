"""The output of the commands: results on standard output, progress on standard error.

With ``--json`` standard output is exactly one JSON document. Without a terminal there is no
colour, and progress is plain lines, fit for a CI log. Hosts, services, models and file names put
words into all of it, so no text is shown but through :func:`~pulumi_plugin.printable.printable`;
JSON escapes for itself.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from itertools import zip_longest
from shutil import get_terminal_size
from typing import TYPE_CHECKING, TextIO

from pulumi_plugin.printable import printable
from tpuflex.errors import TpuflexError
from tpuflex.naming import DEFAULT_STACK
from tpuflex.terminal.manual import more

if TYPE_CHECKING:
    from rich.console import Console, ConsoleRenderable
    from rich.progress import Progress as TransferBar
    from rich.text import Text

#: Seconds between two lines about a transfer when there is no terminal.
_PLAIN_INTERVAL = 5.0
#: What an error begins with.
_ERROR = "Error:"
#: Programs that advice names commands of: a line that begins with one stays whole, to be copied.
_PROGRAMS = frozenset(
    (
        *("cp", "curl", "docker", "eval", "export", "gcloud", "git", "hf", "mkdir", "pip"),
        *("pulumi", "python3", "rm", "sudo", "tpuflex"),
    )
)
#: A word, or a command in backquotes, which stays on one line if it can.
_WORD = re.compile(r"\S*`[^`]*`\S*|\S+")
#: The fewest columns that a column of a table is wrapped in.
_NARROWEST = 12
#: Styles of a terminal, by ECMA-48.
_BOLD, _RED_BOLD, _PLAIN = "\x1b[1m", "\x1b[31m\x1b[1m", "\x1b[0m"


class Output:
    """Writes for one run of the command line.

    Args:
        json: whether standard output is for scripts.
        verbose: whether every resource and message is shown.
        stack: the stack that commands in advice are completed with.
        environ: the environment that they are typed in.
        rehearsing: whether documents say that nothing of this is on Google.
        clock: seconds on a monotonic clock.

    Attributes:
        own_program: whether a program of the user's own deploys that stack.
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
        self.own_program = False
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
    def columns(self) -> int:
        """Columns of the terminal that results go to, as COLUMNS or the terminal has it; 0 where
        they go elsewhere, and nothing is wrapped."""
        return _columns(sys.stdout, self._environ)

    @property
    def ascii_only(self) -> bool:
        """Whether standard output shows ASCII alone."""
        return not (sys.stdout.encoding or "utf-8").lower().startswith("utf")

    def result(self, text: str = "", hanging: str = "") -> None:
        """Print prose of the result, wrapped for the terminal as :func:`wrapped`; nothing with
        ``--json``."""
        if not self.json:
            for line in wrapped(printable(text, lines=True), self.columns, hanging):
                _line(line)

    def verbatim(self, text: str) -> None:
        """Print a part of the result that is not ours to wrap: a script, a log, another's words;
        nothing with ``--json``."""
        if not self.json:
            _line(printable(text, lines=True))

    def piece(self, text: str) -> None:
        """Print a piece of the result without a line break; nothing with ``--json``."""
        if not self.json:
            _write(sys.stdout, printable(text, lines=True, after=self._last_piece))
            self._last_piece = text

    def document(self, value: object) -> None:
        """Print the result as JSON; nothing without ``--json``. Only the first document is printed:
        a failure after it shows in the exit code and on standard error."""
        if self.json and not self._documented:
            self._documented = True
            if self._rehearsing and isinstance(value, dict):
                value = {"rehearsal": True, **value}
            _line(json.dumps(value, indent=2, sort_keys=True, default=str, allow_nan=False))

    def record(self, value: object) -> None:
        """Print one of several results as a line of JSON; nothing without ``--json``."""
        if self.json:
            _line(json.dumps(value, sort_keys=True, default=str, allow_nan=False))

    def progress(self, text: str) -> None:
        """Print a line about what is going on, wrapped for the terminal."""
        lines = wrapped(printable(text, lines=True), _columns(sys.stderr, self._environ))
        _write(sys.stderr, "\n".join(lines) + "\n")

    def heading(self, text: str) -> None:
        """Print a heading of the result."""
        if not self.json:
            shown = printable(text)
            _line(_styled(sys.stdout, shown, _BOLD))

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Print a table of the result."""
        if not self.json:
            for line in table_lines(header, list(rows), self.columns):
                _line(line)

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

    def page(self, rendered: ConsoleRenderable) -> None:
        """Print a text of ours as the result, as wide as the terminal."""
        if not self.json:
            from rich.console import Console

            console = Console(file=sys.stdout)
            with console.capture() as captured:
                console.print(rendered, crop=False)
            _write(sys.stdout, captured.get())

    def facts(self, facts: Iterable[tuple[str, str]]) -> None:
        """Print a block of ``name  value`` lines of the result; empty values are left out."""
        present = [(name, value) for name, value in facts if value]
        width = max((len(name) for name, _ in present), default=0)
        indent = " " * (width + 4)
        for name, value in present:
            lines = printable(value, lines=True).split("\n")
            lines[0] = f"  {name:<{width}}  {lines[0]}"
            for line in (lines[0], *(indent + line for line in lines[1:])):
                self.verbatim("\n".join(wrapped(line, self.columns, indent)))

    def failure(self, error: TpuflexError) -> int:
        """Show an error and return the exit code of its kind."""
        hint = error.hint.for_stack(self._stack, self._environ, own_program=self.own_program)
        label = _styled(sys.stderr, _ERROR, _RED_BOLD)
        message = f"{_ERROR} {printable(error.message, lines=True)}"
        lines = wrapped(message, _columns(sys.stderr, self._environ))
        _write(sys.stderr, label + "\n".join(lines).removeprefix(_ERROR) + "\n")
        if hint:
            self.progress(hint)
        if anchor := more(error):
            self.progress(f"More: tpuflex docs {anchor}")
        self.document(error_document(error, hint))
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


def _write(stream: TextIO, text: str) -> None:
    """Write ``text`` at once, so that both streams keep their order. A stream that was set up for
    ASCII alone gets UTF-8: a wrong letter is better than a failure.

    Raises:
        BrokenPipeError: nobody reads it any more.
    """
    buffer = getattr(stream, "buffer", None)
    if buffer is not None and codecs.lookup(stream.encoding).name == "ascii":
        stream.flush()
        buffer.write(text.encode("utf-8", "replace"))
    else:
        stream.write(text)
    stream.flush()


def _line(text: str) -> None:
    _write(sys.stdout, f"{text}\n")


def _styled(stream: TextIO, text: str, style: str) -> str:
    """``text`` in ``style``, if ``stream`` is a terminal."""
    return f"{style}{text}{_PLAIN}" if stream.isatty() else text


def error_document(error: TpuflexError, hint: str) -> dict[str, object]:
    """What ``--json`` prints of ``error``, with its ``hint`` about a stack."""
    return {"error": {**error.to_json(), "hint": hint, "more": more(error) or None}}


def usage_document(message: str, exit_code: int = 2) -> dict[str, object]:
    """What ``--json`` prints of options or arguments that are wrong."""
    kind = {"kind": "UsageError", "exit_code": exit_code}
    return {"error": {**kind, "message": message, "hint": "", "more": None}}


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


def table_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], columns: int = 0
) -> list[str]:
    """Lines of a plain table: two spaces between columns, no trailing spaces.

    A row is one line, whatever is in its cells. Where that is too long for ``columns``, if these
    are given, cells are wrapped between words; where that does not help, each row is a block that
    has the columns one after the other.
    """
    grid = [tuple(map(printable, row)) for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    least = [max(map(_longest_word, column)) for column in zip(*grid, strict=True)]
    spaces = 2 * (len(widths) - 1)
    while columns and sum(widths) + spaces > columns:
        slack = [
            width if width > max(word, _NARROWEST) else 0
            for width, word in zip(widths, least, strict=True)
        ]
        if not any(slack):
            return _blocks(grid[0], grid[1:], columns)
        widths[slack.index(max(slack))] -= 1
    return [line for row in grid for line in _row_lines(row, widths)]


def _row_lines(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    for line in zip_longest(*cells, fillvalue=""):
        padded = (part.ljust(width) for part, width in zip(line, widths, strict=True))
        yield "  ".join(padded).rstrip()


def _blocks(header: Sequence[str], rows: Iterable[Sequence[str]], columns: int) -> list[str]:
    """A block per row: its first cell, and below it the others, each after its name."""
    lines: list[str] = []
    for row in rows:
        lines += wrapped(row[0], columns)
        line = ""
        for name, cell in zip(header[1:], row[1:], strict=True):
            if cell in ("", "-"):
                continue
            if line and len(line) + len(name) + len(cell) + 3 > columns:
                lines += wrapped(line, columns, "    ")
                line = ""
            line += f"  {name} {cell}"
        if line:
            lines += wrapped(line, columns, "    ")
    return lines


def _longest_word(text: str) -> int:
    return max(map(len, text.split()), default=0)


def wrapped(text: str, columns: int, hanging: str = "") -> list[str]:
    """``text`` in lines of at most ``columns``, if these are given, broken between words.

    A line that begins as another one is indented goes on below its own indent, or with ``hanging``.
    What begins with a program's name, or stands in backquotes, is a command, and stays whole.
    """
    return [part for line in text.split("\n") for part in _wrapped_line(line, columns, hanging)]


def _wrapped_line(line: str, columns: int, hanging: str) -> Iterator[str]:
    if not columns or len(line) <= columns or _program(line) in _PROGRAMS:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip())]
    shown, end = "", 0
    for word in _WORD.finditer(line):
        longer = shown + line[end : word.end()]
        end = word.end()
        below = (hanging or indent) + word[0]
        # What is longer than a line is no better off on the next one.
        if len(longer) <= columns or not shown.strip() or len(below) > columns:
            shown = longer
        else:
            yield shown
            shown = below
    yield shown


def _program(line: str) -> str:
    """The name of the program that ``line`` begins with, if it is a command."""
    return line.lstrip("->$ ").partition(" ")[0].rpartition("/")[2]


def _columns(stream: TextIO, environ: Mapping[str, str]) -> int:
    if environ.get("COLUMNS", "").isdecimal():
        return int(environ["COLUMNS"])
    return get_terminal_size().columns if stream.isatty() else 0
