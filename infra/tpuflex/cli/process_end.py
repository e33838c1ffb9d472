"""The end of the command's process, which leaves its memory to the kernel.

Before a process ends, Python frees each of its modules and classes. A command that has loaded
Pulumi's and Google's libraries has thousands, and freeing them is a sixth of the time of `status`.
mypy ends in the same way (`hard_exit` of its util.py).
"""

from __future__ import annotations

import atexit
import os
import sys


class QuickEnd:
    """The last thing that a process does, once it is known how it ended.

    Made before whatever else is registered with :mod:`atexit`, it comes after all of that, and
    after the threads that Python waits for.

    Attributes:
        code: the exit code; None until it is known, and then the process ends as Python does it.
    """

    def __init__(self) -> None:
        self.code: int | None = None
        self._process = os.getpid()
        atexit.register(self._end)

    def _end(self) -> None:
        # A fork of this process has an end of its own.
        if self.code is None or os.getpid() != self._process or _is_watched():
            return
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:  # None: the shell has closed it, by `>&-`
                    stream.flush()
        except (OSError, ValueError):
            return  # Python meets it again, and says so
        os._exit(self.code)


def _is_watched() -> bool:
    """Whether a debugger or a measurement of coverage has something to do yet."""
    if sys.gettrace() or sys.getprofile():
        return True
    # https://docs.python.org/3/library/sys.monitoring.html#tool-identifiers
    return sys.version_info >= (3, 12) and any(sys.monitoring.get_tool(tool) for tool in range(6))
