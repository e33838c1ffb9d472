"""A command that runs beside this process in a process group of its own, with what it has said."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import IO

#: Bytes of what a command prints that are read.
MOST_SAID = 64 * 1024


def end_group(process: subprocess.Popen[bytes], within: float) -> None:
    """End ``process``, which leads its group, and all that it started.

    Its standard input is closed; what then still runs is killed after ``within`` seconds.
    """
    try:
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        process.wait(within)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # What is left of the group, whether the leader lives or not; also on a second Ctrl-C.
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def last_words(said: IO[bytes], most: int = MOST_SAID) -> str:
    """The last ``most`` bytes, as text, of what a command has printed to the file ``said``."""
    said.seek(0, os.SEEK_END)
    said.seek(max(0, said.tell() - most))
    return said.read(most).decode(errors="replace")
