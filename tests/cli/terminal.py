"""A shell at a terminal of its own, in which a test types keys."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

#: Makes standard input the controlling terminal, and becomes the shell.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp(sys.argv[1], sys.argv[1:])"
)
PROMPT = "READY>"
#: Keys of all shells with the bindings of Emacs.
TAB, TO_START, TO_END, ENTER = "\t", "\x01", "\x05", "\r"
_SECONDS = 60.0


class Terminal:
    """A shell at a terminal.

    Args:
        command: the shell.
        prompt: what makes it ask for commands with :data:`PROMPT`.
        directory: where it runs.
        environ: its environment.
    """

    def __init__(
        self, command: list[str], prompt: str, directory: Path, environ: Mapping[str, str]
    ) -> None:
        self._master, terminal = os.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _ON_TERMINAL, *command],
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            cwd=directory,
            env=dict(environ),
        )
        os.close(terminal)
        self._shown = ""
        self.run(prompt)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    def run(self, line: str) -> None:
        """Type a line and wait until it is done."""
        self.press(f"{line}{ENTER}")
        self.press(f"printf '<%s>' done{ENTER}")
        self.read_until("<done>")

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def words_after_tab(self, typed: str) -> list[str]:
        """The words of the line after TAB was pressed behind ``typed``."""
        self.press(f"{typed}{TAB}")
        # Type-ahead: the shell takes these keys when it has completed.
        self.press(f"{TO_START}printf '<%s>' {TO_END} '' end{ENTER}")
        shown = self.read_until("<end>")
        return shown.rpartition("<tpuflex>")[2].removesuffix("<><end>")[1:-1].split("><")

    def read_until(self, text: str) -> str:
        """What is shown until ``text`` is."""
        end = time.monotonic() + _SECONDS
        while text not in self._shown:
            ready, _, _ = select.select([self._master], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise AssertionError(f"{text!r} was not shown, but: {self._shown!r}")
            self._shown += os.read(self._master, 65536).decode(errors="replace")
        shown, _, self._shown = self._shown.partition(text)
        return shown + text
