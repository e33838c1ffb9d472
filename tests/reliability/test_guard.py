"""A rig that is killed takes along what it has started."""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from reliability import processes

RIG = """
import os, subprocess, sys, time
from pathlib import Path
from reliability import processes
mark, home = sys.argv[1:]
with processes.guarded(mark, Path(home)):
    sleep = [sys.executable, "-c", "import time; time.sleep(60)"]
    apart = {"start_new_session": True, "stdout": subprocess.DEVNULL}
    subprocess.Popen(sleep, env={**os.environ, processes.MARK: mark}, **apart)
    subprocess.Popen(sleep, **apart)
    print("up", flush=True)
    sys.stdin.readline()
"""


def rig(mark: str, home: Path) -> subprocess.Popen[str]:
    home.mkdir()
    started = subprocess.Popen(
        [sys.executable, "-c", RIG, mark, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "benchmarks")},
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    return started


def becomes(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 50
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def test_what_a_killed_rig_has_started_ends(tmp_path: Path) -> None:
    """Its commands, its servers and its directory: nobody else would end them."""
    mark = f"rig-{uuid.uuid4().hex}"
    with rig(mark, tmp_path / "home") as started:
        assert len(processes.marked(mark)) == 1
        assert len(processes.marked(mark, processes.SERVER_MARK)) >= 1
        started.kill()

    assert becomes(lambda: not processes.marked(mark))
    assert becomes(lambda: not processes.marked(mark, processes.SERVER_MARK))
    assert becomes(lambda: not (tmp_path / "home").exists())


def test_a_rig_that_ends_keeps_its_files(tmp_path: Path) -> None:
    """Its commands end with it; its directory is its caller's."""
    mark = f"rig-{uuid.uuid4().hex}"
    with rig(mark, tmp_path / "home") as started:
        started.communicate("end\n")
        assert started.returncode == 0

    assert processes.marked(mark) == []
    assert (tmp_path / "home").is_dir()
    processes.end(mark, processes.SERVER_MARK)
