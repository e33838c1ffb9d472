"""The end of the command's process."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: What comes after a quick end tells that there was none.
_PROGRAM = """
import atexit, sys, threading
from tpuflex.cli.main import QuickEnd

atexit.register(print, "Python's own end", file=sys.stderr)
end = QuickEnd()
ready = threading.Event()
atexit.register(print, "registered")
threading.Thread(target=lambda: (ready.wait(), print("thread"))).start()
"""


def _run(rest: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM + rest],
        env={name: text for name, text in os.environ.items() if name != "PYTHONUNBUFFERED"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("code", [0, 7])
def test_all_that_waits_is_done_first(code: int) -> None:
    """Threads end, what is registered runs, what was printed is written, and the code is told."""
    done = _run(f"print('printed'); end.code = {code}; ready.set(); sys.exit({code})")

    assert (done.returncode, done.stderr) == (code, "")
    assert done.stdout.split() == ["printed", "thread", "registered"]


def test_an_error_that_nobody_caught_ends_as_ever() -> None:
    """Without a code there is a traceback, and Python's own end."""
    done = _run("ready.set(); raise RuntimeError('unforeseen')")

    assert done.returncode == 1
    assert "RuntimeError: unforeseen" in done.stderr
    assert done.stderr.endswith("Python's own end\n")


def test_who_watches_the_process_gets_pythons_own_end() -> None:
    """A debugger, or a measurement of coverage, may have registered earlier."""
    done = _run("sys.settrace(lambda *_: None); end.code = 0; ready.set()")

    assert (done.returncode, done.stderr) == (0, "Python's own end\n")


def test_a_reader_that_has_gone_is_met_as_ever() -> None:
    """What cannot be written any more is Python's to tell: code 120."""
    done = _run(
        "import os; reader, writer = os.pipe(); os.close(reader); os.dup2(writer, 1)\n"
        "print('unread'); end.code = 0; ready.set()"
    )

    assert done.returncode == 120
    assert "BrokenPipeError" in done.stderr


def test_a_closed_stream_is_no_error() -> None:
    """A shell may have closed standard output before the process began: `>&-`."""
    done = _run("sys.stdout = None; end.code = 3; ready.set(); sys.exit(3)")

    assert (done.returncode, done.stderr) == (3, "")


def test_a_fork_has_its_own_end() -> None:
    """What was forked from the command's process ends with its own code."""
    done = _run(
        "import os; end.code = 0; ready.set(); threading.enumerate()[-1].join()\n"
        "child = os.fork()\n"
        "if not child: sys.exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )

    assert done.stdout.split()[-2:] == ["9", "registered"]


def test_a_program_that_runs_a_command_goes_on() -> None:
    """Who calls the command line with words of its own decides how its process ends."""
    done = _run(
        "from tpuflex.cli.main import main\n"
        "ready.set()\n"
        "try: main(['--version'])\n"
        "except SystemExit: sys.exit(3)"
    )

    assert (done.returncode, done.stderr) == (3, "Python's own end\n")
