"""The machine's startup script: what it holds, and that a machine that ends in the middle of it
leaves what the next one goes on with."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from tests.copier.rig import Rig, done, line_to
from tests.copier.test_copier import bucket_of
from tpuflex.boot.manifest import MANIFEST_NAME
from tpuflex.operate.region_copy.bundle import MOST_BYTES, startup_script


def run_script(rig: Rig, directory: Path) -> subprocess.Popen[bytes]:
    """The startup script in a process group of its own, with a Python that has no packages."""
    bin_ = directory / "bin"
    bin_.mkdir(exist_ok=True)
    python = bin_ / "python3"
    # -S: no package that is installed here can be imported.
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    environ = {"PATH": f"{bin_}:{os.defpath}", "TMPDIR": str(directory), **rig.metadata.environ}
    script = ["bash", "-c", startup_script()]
    return subprocess.Popen(
        script,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def test_the_script_is_small_and_the_same_each_time() -> None:
    """It fits into a metadata value several times, and does not say when it was made."""
    first = startup_script()
    startup_script.cache_clear()
    assert startup_script() == first
    assert len(first.encode()) < MOST_BYTES // 4


def test_it_runs_with_the_standard_library_alone(rig: Rig, tmp_path: Path) -> None:
    """A machine has bash and Python, and nothing else; nothing is left on its disk."""
    rig.metadata.job = rig.job().to_json()
    with run_script(rig, tmp_path) as process:
        output, _ = process.communicate(timeout=60)
    assert (process.returncode, output) == (0, b"")
    assert done(rig.metadata.last)
    assert not [*tmp_path.glob("tmp.*")]


@pytest.mark.parametrize("place", range(5))
def test_a_machine_killed_at_any_write_is_followed_by_one_that_goes_on(
    rig: Rig, tmp_path: Path, place: int
) -> None:
    """Whichever write it dies at, no manifest stands for half a model, and the next machine brings
    all of it, and keeps what had arrived."""
    running: list[subprocess.Popen[bytes]] = []

    def kill(at: int) -> None:
        if at == place:
            os.killpg(running[0].pid, signal.SIGKILL)

    with line_to(rig.cloud.url) as line:
        line.at_write = kill
        rig.metadata.job = rig.job(line.url).to_json()
        with run_script(rig, tmp_path) as process:
            running.append(process)
            process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
    # A write that was on its way may arrive after its sender's death.
    left = rig.names() - {MANIFEST_NAME}

    report = done(rig.run(rig.job()))

    assert {rig.job().files[kept].path for kept in report.kept} >= left
    assert bucket_of(rig).verify(rig.job().prefix).problems == ()


@pytest.mark.parametrize(("deaths", "code"), [(2, 0), (3, 128 + signal.SIGKILL)])
def test_a_program_that_is_killed_is_started_again(
    rig: Rig, tmp_path: Path, deaths: int, code: int
) -> None:
    """What is killed cannot say so, and the command would wait for it until it takes the machine
    for dead: the machine starts it again, twice at most, and it goes on where it was."""
    running: list[subprocess.Popen[bytes]] = []
    killed: set[int] = set()
    lock = threading.Lock()

    def kill(_place: int) -> None:
        with lock:  # it writes several files at a time, and dies once
            if len(killed) == deaths:
                return
            for program in psutil.Process(running[0].pid).children():
                killed.add(program.pid)
                program.kill()
        raise ConnectionResetError("sent by a dead program")

    with line_to(rig.cloud.url) as line:
        line.at_write = kill
        rig.metadata.job = rig.job(line.url).to_json()
        with run_script(rig, tmp_path) as process:
            running.append(process)
            process.communicate(timeout=60)

    assert (len(killed), process.returncode) == (deaths, code)
    assert not [*tmp_path.glob("tmp.*")]
    if code == 0:
        assert done(rig.metadata.last)
        assert bucket_of(rig).verify(rig.job().prefix).problems == ()
