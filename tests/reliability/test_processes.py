"""The processes of a command: registered before they run, and ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil

from reliability import processes
from tests.embedded_cloud.families import FAMILY


def test_a_command_is_known_before_its_first_instruction(tmp_path: Path) -> None:
    """The rig's commands wait until their process id is registered."""
    seen: list[tuple[int, str]] = []
    program = "import os; print(os.getpid())"

    def started(pid: int) -> None:
        seen.append((pid, psutil.Process(pid).name()))

    ended = processes.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        environ={"PATH": os.environ["PATH"], processes.MARK: "rig-test-known"},
        started=started,
        timeout_s=20,
    )

    assert ended.exit_code == 0
    assert ended.stdout == f"{seen[0][0]}\n"


def test_a_command_that_hangs_is_ended_with_all_its_processes(tmp_path: Path) -> None:
    """Its exit code is None, and nothing of it is left."""
    mark = "rig-test-hangs"
    ended = processes.run(
        [sys.executable, "-c", FAMILY],
        cwd=tmp_path,
        environ={"PATH": os.environ["PATH"], processes.MARK: mark},
        started=lambda _: None,
        timeout_s=1,
    )

    assert ended.exit_code is None
    assert processes.await_quiet(mark, 5)


def test_what_outlives_a_command_is_found(tmp_path: Path) -> None:
    """An engine whose command line was killed goes on: the rig finds it, and can end it."""
    mark = "rig-test-outlives"
    program = (
        "import subprocess, sys; "
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'],"
        " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)"
    )
    ended = processes.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        environ={"PATH": os.environ["PATH"], processes.MARK: mark},
        started=lambda _: None,
        timeout_s=20,
    )

    assert ended.exit_code == 0
    assert not processes.await_quiet(mark, 0)
    processes.end(mark)
    assert processes.await_quiet(mark, 0)
