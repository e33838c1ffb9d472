"""The first process of an emulated host: ``python init.py SCRIPT EXIT_CODE_FILE``.

It starts the startup script, writes the script's exit code to a file, and lives on. Processes
on the host whose parent has died become its children instead of the machine's (Linux
``PR_SET_CHILD_SUBREAPER``), as they do with the init of a real host. So every process
on the host remains its descendant and can be ended, even one that changed its session or
environment.

Run by path, without importing the package, so that a host boots in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_IDLE_S = 0.2


def main(script: str, exit_code_file: Path) -> None:
    """Run ``script`` with bash and reap every process that dies on this host, forever."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Kept referenced: a Popen object that is collected would reap the exit status itself.
    child = subprocess.Popen(["bash", script], start_new_session=True)
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            time.sleep(_IDLE_S)
            continue
        if pid == child.pid:
            exit_code_file.write_text(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
