"""The guard of a rig whose hosts run something: nothing of them outlives the rig, however it ends.

Processes on a host have an environment of their own, so that no mark of a rig finds them: they are
ended with the embedded cloud that runs the host, or by the host's directory once that is killed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from embedded_cloud import daemon
from embedded_cloud.hosts.processes import HOST_DIRECTORY_VARIABLE
from reliability import processes
from tpuflex.errors import EmulatorError

_OVER = b"over"


@contextmanager
def guarded(mark: str, home: Path) -> Iterator[None]:
    """Inside this context, the commands that carry ``mark``, the embedded cloud of ``home`` and
    what runs on its hosts outlive this process by some seconds at most; if it is killed, ``home``
    is removed, too.

    A separate process waits for the end of a pipe, which the kernel closes in any case.
    """
    watcher = subprocess.Popen(
        [sys.executable, "-P", "-m", "reliability.host_guard", mark, str(home)],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
    )
    try:
        yield
    finally:
        watcher.communicate(_OVER)


def end_all(mark: str, home: Path) -> None:
    """End the commands, the embedded cloud and its hosts."""
    processes.end(mark)
    state = home / ".tpuflex" / "emulator"
    with suppress(EmulatorError):
        daemon.stop(state)
    # Of a cloud that was killed, or does not end, hosts are left.
    for process in running_on(state):
        with suppress(psutil.Error):
            process.kill()


def running_on(directory: Path) -> list[psutil.Process]:
    """The live processes that work below ``directory``: of an embedded cloud's, itself and its
    hosts."""
    return [each for each in psutil.process_iter() if _works_in(each, str(directory))]


def _works_in(process: psutil.Process, directory: str) -> bool:
    with suppress(psutil.Error, OSError):
        if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        # An engine core has no words of its own, but works in its container's directory.
        places = (process.environ().get(HOST_DIRECTORY_VARIABLE, ""), process.cwd())
        return any(directory in place for place in (*places, *process.cmdline()))
    return False


def _watch(mark: str, home: str) -> None:
    regular = sys.stdin.buffer.read() == _OVER
    end_all(mark, Path(home))
    if not regular:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    _watch(*sys.argv[1:])
