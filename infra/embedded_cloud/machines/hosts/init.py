"""The first process of an emulated host: ``python init.py SCRIPT EXIT_CODE_FILE OWNER``.

It starts the startup script, writes the script's exit code to a file, and lives on. Processes
on the host whose parent has died become its children instead of the machine's (Linux
``PR_SET_CHILD_SUBREAPER``), as they do with the init of a real host. So every process
on the host remains its descendant and can be ended, even one that changed its session or
environment.

When ``OWNER``, the process that started it, is gone, the host is powered off: an emulator that was
killed leaves no open ports behind. (A real host outlives a failure of the control plane; here
nothing could be done with it, as the next start boots it again.)

Run by path, without importing the package, so that a host boots in a few milliseconds.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_IDLE_S = 0.2
#: With the package, unlike this module: it knows how to find what runs on a host.
_POWER_OFF = """
import os, pathlib
from embedded_cloud.machines.hosts.processes import HOST_DIRECTORY_VARIABLE, kill_host
kill_host(pathlib.Path(os.environ[HOST_DIRECTORY_VARIABLE]))
"""


def main(script: str, exit_code_file: Path, owner: int) -> None:
    """Run ``script`` with bash and reap every process that dies on this host, until ``owner``,
    the process that started this one, is gone."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    # Kept referenced: a Popen object that is collected would reap the exit status itself.
    child = subprocess.Popen(["bash", script], start_new_session=True)
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            time.sleep(_IDLE_S)
            continue
        if pid == child.pid:
            exit_code_file.write_text(str(os.waitstatus_to_exitcode(status)))


def _end_with(owner: int) -> None:
    """Kill everything on this host, this process last, once its owner is gone."""
    while os.getppid() == owner:
        time.sleep(_IDLE_S)
    subprocess.run([sys.executable, "-P", "-c", _POWER_OFF], start_new_session=True, check=False)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
