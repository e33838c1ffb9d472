"""What a terminal shows in the end, and when each of its lines came to be what it is.

The terminal is pyte's (https://pyte.readthedocs.io), which understands what rich sends; it is as
high as the session is long, so that nothing scrolls out of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

import pyte
from pyte.screens import Char

from recording.session import Session

#: Lines of the longest session.
_LINES = 1000
_WORDS = re.compile(r"\S+(?: \S+)*")


@dataclass(frozen=True, slots=True)
class Run:
    """Characters that look alike.

    Attributes:
        column: where they begin, from 0.
        text: the characters.
        colour: as pyte names it: ``default``, ``green``, or six hexadecimal digits.
        bold: whether they are bold.
    """

    column: int
    text: str
    colour: str
    bold: bool


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the terminal.

    Attributes:
        at: seconds since the beginning at which it was last changed, not before the line above.
        runs: its characters, without the blanks at its end.
    """

    at: float
    runs: tuple[Run, ...]


def lines_of(session: Session) -> tuple[Line, ...]:
    """The lines that the session leaves on a terminal without an end."""
    screen = pyte.Screen(session.columns, _LINES)
    stream = pyte.Stream(screen)
    changed: dict[int, float] = {}
    before: dict[int, str] = {}
    for at, text in session.events:
        screen.dirty.clear()
        stream.feed(text)
        for row in screen.dirty:
            now = screen.display[row].rstrip()
            if now != before.get(row, ""):
                before[row], changed[row] = now, at
    last = max(row for row, text in before.items() if text)
    lines: list[Line] = []
    at = 0.0
    for row in range(last + 1):
        at = max(at, changed.get(row, at))
        cells = [screen.buffer[row][column] for column in range(session.columns)]
        lines.append(Line(at, _runs(cells)))
    return tuple(lines)


def _runs(cells: list[Char]) -> tuple[Run, ...]:
    """The runs of a line; two blanks and more, as between the columns of a table, end one."""
    runs: list[Run] = []
    column = 0
    for (colour, bold), group in groupby(cells, key=lambda cell: (cell.fg, cell.bold)):
        text = "".join(cell.data for cell in group)
        runs += [
            Run(column + found.start(), found[0], colour, bold) for found in _WORDS.finditer(text)
        ]
        column += len(text)
    return tuple(runs)
