"""The processes of a command: found by role or mark, registered before they run, and ended."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import psutil
import pytest

from embedded_cloud.faults.processes import Roles, find
from reliability import processes
from tests.reliability.families import FAMILY, Spawn


def test_neither_the_emulator_nor_who_started_it_is_ever_meant(spawn: Spawn) -> None:
    """Whatever root is registered: this process and its ancestors are spared."""
    child = spawn(FAMILY)
    roles = Roles(root=psutil.Process().pid)

    found = {process.pid for _, process in find(roles, ["family"])}

    assert child.pid in found
    assert not found & {os.getpid(), os.getppid(), 1}


def test_a_role_can_be_text_of_a_command_line(spawn: Spawn) -> None:
    """For other providers than ours."""
    family = spawn(FAMILY)
    roles = Roles.from_json({"root": family.pid, "provider": "time.sleep(60)"})

    assert len(find(roles, ["provider"])) == 3
    assert Roles.from_json(roles.to_json()) == roles


def test_a_mark_finds_processes_whose_parents_are_dead(
    monkeypatch: pytest.MonkeyPatch, spawn: Spawn
) -> None:
    """The environment outlives the parent."""
    monkeypatch.setenv("RIG_TEST_MARK", "here")
    family = spawn(FAMILY)
    children = family.children()
    roles = Roles.from_json({"root": family.pid, "mark": "RIG_TEST_MARK=here"})
    family.kill()
    family.wait()

    found = {process.pid for _, process in find(roles, ["family"])}

    assert {child.pid for child in children} <= found
    for child in children:
        child.kill()


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
    assert ended.left == ()


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


def test_what_outlives_a_command_is_named(tmp_path: Path) -> None:
    """An engine whose command line was killed goes on: the rig says so, and can end it."""
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

    assert len(ended.left) == 1
    assert not processes.await_quiet(mark, 0)
    processes.end(mark)
    assert processes.await_quiet(mark, 0)
