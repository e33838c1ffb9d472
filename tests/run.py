"""Runs a command, and ends whatever it has left behind: `make test` and `make acceptance` start
pytest by it.

Tests start clouds, engines, servers and hosts in sessions of their own, which Ctrl-C does not
reach. All of them become children of this process when theirs has ended (prctl(2),
PR_SET_CHILD_SUBREAPER), whatever session they are in, so that none is missed unless this process
itself is killed; where there is no such call, those of the command that still runs are found.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from types import FrameType

import psutil

_PR_SET_CHILD_SUBREAPER = 36
#: Seconds in which what was left behind may end by itself.
_PATIENCE_S = 5


def run(command: list[str]) -> int:
    """The command's exit code, once nothing of it runs any more.

    Ctrl-C is the command's own affair; SIGTERM and SIGHUP reach it as one, and a second kills it.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # The command gets what is set here: Ctrl-C ends it, also where a shell has put it into the
    # background, and only it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    child = subprocess.Popen(command)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    asked = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        child.send_signal(signal.SIGKILL if asked else signal.SIGINT)
        asked = True

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGHUP, interrupt)
    while True:
        # Also takes the end of what has lost its own parent, as init does.
        pid, status = os.wait()
        if pid == child.pid:
            child.returncode = os.waitstatus_to_exitcode(status)
            end_what_is_left()
            return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end_what_is_left() -> None:
    """End all processes below this one, and say which they were.

    In rounds, because one that starts others may have done so meanwhile.
    """
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL):
        left = psutil.Process().children(recursive=True)
        for process in left:
            if number == signal.SIGTERM:
                _say(process)
            _signal(process, number)
        psutil.wait_procs(left, timeout=_PATIENCE_S)


def _say(process: psutil.Process) -> None:
    try:
        words = " ".join(process.cmdline()) or process.name()
    except psutil.Error:
        return
    print(f"ended, left behind by the tests: {words[:120]}", file=sys.stderr)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.Error:
        return


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
