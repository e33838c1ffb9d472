"""The process of an operation: runs its command, passes signals on to it, and keeps its exit code.

``python -m tpuflex.mcp_server.operation_process FILE COMMAND…`` writes the code to FILE.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType

from tpuflex.files.trusted import write_private

_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def main(code_file: Path, words: list[str]) -> int:
    """Run ``words`` to the end. Signals that ask this process to stop go to the command, which
    decides what they mean, and has ended when this process has."""
    child: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, _frame: FrameType | None) -> None:
        if child is None:
            early.append(number)
        else:
            child.send_signal(number)

    # Handlers, unlike ignored signals, are not inherited: the command has the defaults.
    for number in _PASSED_ON:
        signal.signal(number, pass_on)
    child = subprocess.Popen(words)
    for each in early:
        child.send_signal(each)
    ended = child.wait()
    code = ended if ended >= 0 else 128 - ended
    write_private(code_file, f"{code}\n")
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
