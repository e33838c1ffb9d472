"""One recovery of a stack at a time.

The engine's lock is taken and given back by each of its runs, and a recovery makes several: two
of them would write over each other's state. The kernel frees this lock when its holder ends,
also by kill -9.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuflex.errors import EngineError


@contextmanager
def recovery_lock(
    directory: Path, project: str, stack: str, command: str = "tpuflex recover"
) -> Iterator[None]:
    """While inside, no other recovery of that stack begins.

    Args:
        directory: of the file backend; of another backend, where this project keeps its files.
        project: Pulumi project name.
        stack: stack name.
        command: what recovers, for the error.

    Raises:
        EngineError: another one is under way.
    """
    folder = directory / ".pulumi"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"tpuflex-recover.{project}.{stack}.lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            holder = file.read().strip()
            who = f" (process {holder})" if holder else ""
            raise EngineError(
                f"Another `{command}` is running on stack {stack}{who}.",
                hint="Wait for it to end, or press Ctrl-C there.",
            ) from error
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        yield
