"""A session at a terminal: commands are typed, their questions answered, and all output kept."""

from __future__ import annotations

import fcntl
import os
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

#: Makes standard input the controlling terminal, and becomes the command.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
_PROMPT = "\x1b[1;32m$\x1b[0m "


@dataclass(frozen=True, slots=True)
class Command:
    """A command of the session.

    Attributes:
        typed: what the user types.
        words: what is run.
        answers: what a question ends with, and what the user answers.
    """

    typed: str
    words: tuple[str, ...]
    answers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Session:
    """What a terminal of ``columns`` by ``rows`` was sent.

    Attributes:
        columns: width.
        rows: height that the commands were told.
        events: seconds since the beginning, and text, as in an asciicast
            (https://docs.asciinema.org/manual/asciicast/v2/).
    """

    columns: int
    rows: int
    events: list[tuple[float, str]] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)

    def run(self, command: Command, directory: Path, environ: Mapping[str, str]) -> None:
        """Run a command to its end.

        Raises:
            SystemExit: it failed.
        """
        self._show(f"{_PROMPT}{command.typed}\r\n")
        master, terminal = os.openpty()
        size = struct.pack("HHHH", self.rows, self.columns, 0, 0)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, size)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _ON_TERMINAL, *command.words],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=directory,
            env=dict(environ),
        )
        os.close(terminal)
        self._follow(master, command.answers, f"{directory}/")
        os.close(master)
        if process.wait() != 0:
            shown = "".join(text for _, text in self.events)
            sys.exit(f"{command.typed} ended with {process.returncode}:\n{shown}")
        self._show("\r\n")

    def _follow(self, master: int, answers: Mapping[str, str], own: str) -> None:
        """Keep what is shown, without the place of the project on this machine."""
        left = dict(answers)
        unanswered = ""
        while True:
            try:
                sent = os.read(master, 65536)
            except OSError:  # Linux says so when the last process has closed the terminal
                return
            if not sent:
                return
            text = sent.decode("utf-8", "replace")
            self._show(text.replace(own, ""))
            unanswered += text
            for question in [each for each in left if each in unanswered]:
                os.write(master, f"{left.pop(question)}\n".encode())

    def _show(self, text: str) -> None:
        self.events.append((time.monotonic() - self._began, text))
