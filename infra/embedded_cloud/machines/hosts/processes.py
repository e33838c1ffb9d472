"""Finding and ending everything that runs on an emulated host.

On Linux all of them descend from the host's first process (see ``init.py``); elsewhere, or
after that one was killed, every container has a session of its own. So they are found by
record (``host.json`` for the first process, ``containers/*.json`` for the containers), by
session, by descent and by their environment. A recorded process counts only if its start
time is the recorded one: process ids are reused.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

#: Set in the environment of everything on a host; names the host's directory.
HOST_DIRECTORY_VARIABLE = "TPUFLEX_HOST_DIR"

_SAME_START_S = 0.02
_ROUNDS = 100
_ROUND_S = 0.02


def kill_host(directory: Path) -> int:
    """Kill everything that runs on the host of ``directory``; returns their number.

    The host's first process goes last: until then, processes that are started or orphaned while
    the others are being killed are still its descendants. Returns when nothing is left, or after
    some seconds (a process that sleeps in the kernel dies when it wakes).
    """
    record = read_record(directory / "host.json")
    first = None if record is None else same_process(*record)
    killed: set[int] = set()
    for _ in range(_ROUNDS):
        running = processes_of(directory)
        if not running:
            break
        others = [process for process in running if process != first]
        for process in others or running:
            killed.add(process.pid)
            # Each one by itself: a group may hold processes that are not this host's.
            with contextlib.suppress(psutil.Error):
                process.send_signal(signal.SIGKILL)
        time.sleep(_ROUND_S)
    return len(killed)


def processes_of(directory: Path) -> list[psutil.Process]:
    """Every living process on the host of ``directory``."""
    sessions = set(_sessions(directory))
    processes: dict[int, psutil.Process] = {}
    for process in psutil.process_iter():
        if process.pid != os.getpid() and _lives_on(process, directory, sessions):
            processes[process.pid] = process
            with contextlib.suppress(psutil.Error):
                processes.update((child.pid, child) for child in process.children(recursive=True))
    processes.pop(os.getpid(), None)
    return [process for process in processes.values() if is_alive(process)]


def same_process(pid: int, create_time: float) -> psutil.Process | None:
    """The living process ``pid`` if it started at ``create_time``; ``None`` otherwise."""
    try:
        process = psutil.Process(pid)
        same = abs(process.create_time() - create_time) <= _SAME_START_S
    except psutil.Error:
        return None
    return process if same and is_alive(process) else None


def read_record(path: Path) -> tuple[int, float] | None:
    """The process that a JSON file records: its ``pid`` and ``create_time``, if it holds them."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        return int(record["pid"]), float(record["create_time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _sessions(directory: Path) -> Iterator[int]:
    """Session ids of the first process and of the containers.

    A session outlives its leader, and its number is not given to another process while a
    member lives. So if the number belongs to a process that started at another time, the
    recorded session is over.
    """
    records = [read_record(directory / "host.json")]
    for path in sorted(directory.glob("containers/*.json")):
        records.append(read_record(path))
    for record in records:
        if record is None or record[0] <= 1:
            continue
        pid, create_time = record
        running = same_process(pid, create_time) is not None
        if running or not psutil.pid_exists(pid) or _is_zombie(pid):
            yield pid


def _lives_on(process: psutil.Process, directory: Path, sessions: set[int]) -> bool:
    with contextlib.suppress(OSError):
        if os.getsid(process.pid) in sessions:
            return True
    try:
        return process.environ().get(HOST_DIRECTORY_VARIABLE) == str(directory)
    except (psutil.Error, OSError):
        return False


def _is_zombie(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_alive(process: psutil.Process) -> bool:
    """Whether the process runs and is not a zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
