"""Commands as child processes that kill points can target and that leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

#: Variable in the environment of everything that a rig starts; its value identifies the rig.
MARK = "TPUFLEX_RIG"

_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: with None if it was killed because it timed out."""

    exit_code: int | None
    stdout: str
    stderr: str
    seconds: float


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    environ: Mapping[str, str],
    started: Callable[[int], None],
    timeout_s: float,
) -> Ended:
    """Run ``command`` to its end."""
    began = time.monotonic()
    # The shell waits for a line and then becomes the command: same process, nothing missed.
    waiting = ["/bin/sh", "-c", 'read -r _; exec "$@" </dev/null', "sh", *command]
    with subprocess.Popen(
        waiting,
        cwd=cwd,
        env=dict(environ),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as child:
        try:
            started(child.pid)
            stdout, stderr = child.communicate("go\n", timeout=timeout_s)
            exit_code: int | None = child.returncode
        except subprocess.TimeoutExpired:
            end(environ[MARK])
            stdout, stderr = child.communicate()
            exit_code = None
        except BaseException:
            end(environ[MARK])
            raise
    return Ended(exit_code, stdout, stderr, time.monotonic() - began)


def marked(mark: str) -> list[psutil.Process]:
    """The live processes with ``mark`` in their environment, except this one."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(MARK) != mark or process.pid == os.getpid():
                continue
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def end(mark: str) -> None:
    """Kill every process with ``mark``, including stopped ones and those started meanwhile."""
    while processes := marked(mark):
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes, timeout=2)


def await_quiet(mark: str, seconds: float) -> bool:
    """Wait until no process with ``mark`` is left; false if that takes longer than ``seconds``."""
    deadline = time.monotonic() + seconds
    while marked(mark):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_S)
    return True
