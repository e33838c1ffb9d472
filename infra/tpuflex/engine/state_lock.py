"""The state lock of Pulumi's file backend: who holds it, and whether that process still lives.

The backend writes ``.pulumi/locks/organization/PROJECT/STACK/ID.json`` with process id, user,
host and time, and has no lease: a killed engine leaves its lock for good (the engine's
``pkg/backend/diy/lock.go``). A lock is broken here only when its owner is certainly dead. In a
bucket the files are objects of the same names, which are read and never removed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from tpuflex.advice import Advice
from tpuflex.errors import EngineError

#: A process's start is known to about a second; a lock is written after its owner started.
_SLACK_SECONDS = 2.0
#: Seconds that a headless engine gets to finish its calls and write its state.
_STOP_SECONDS = 30.0
#: Seconds that a process which was just killed may take to be gone.
_DYING_SECONDS = 3.0
_LOOK_SECONDS = 0.2
#: Commands in which the engine takes the lock.
_HOLDERS = ("up", "down", "preview", "recover", "secrets", "weights", "library", "demo")


class Owner(StrEnum):
    """What is known of the process that holds a lock."""

    DEAD = "dead"
    HEADLESS = "headless"  #: an engine whose command line is gone: nothing waits for it
    ALIVE = "alive"
    ELSEWHERE = "elsewhere"  #: on another machine, about whose processes nothing is known here


@dataclass(frozen=True, slots=True)
class LockHolder:
    """Who has taken a lock.

    Attributes:
        pid: its owner's process id.
        username: its owner's user.
        hostname: its owner's machine.
        timestamp: when it was taken, seconds since the epoch.
    """

    pid: int
    username: str
    hostname: str
    timestamp: float

    @property
    def described(self) -> str:
        """The owner, for people."""
        taken = datetime.fromtimestamp(self.timestamp, UTC)
        return (
            f"process {self.pid} of {self.username} on {self.hostname}, "
            f"since {taken.strftime('%Y-%m-%dT%H:%M:%SZ')}"
        )


@dataclass(frozen=True, slots=True)
class Lock(LockHolder):
    """One lock file.

    Attributes:
        path: the file.
    """

    path: Path


class Processes(Protocol):
    """What is asked about the processes of this machine."""

    def hostname(self) -> str:
        """Name of this machine."""

    def started(self, pid: int) -> float | None:
        """When ``pid`` started, seconds since the epoch; None when there is no such process."""

    def headless(self, pid: int) -> bool:
        """Whether ``pid`` is an engine whose program, and with it its command line, is gone."""

    def command(self, pid: int) -> str:
        """What ``pid`` works for, such as ``tpuflex up``; empty where that is not known."""

    def stop(self, pid: int) -> bool:
        """Ask ``pid`` to finish and wait; whether it is gone."""


def owner(lock: LockHolder, processes: Processes) -> Owner:
    """What is known of the owner of ``lock``."""
    if lock.hostname != processes.hostname():
        return Owner.ELSEWHERE
    started = processes.started(lock.pid)
    if started is None or started > lock.timestamp + _SLACK_SECONDS:
        return Owner.DEAD  # gone, or its number was given to a younger process
    return Owner.HEADLESS if processes.headless(lock.pid) else Owner.ALIVE


def locks(backend: Path, project: str, stack: str) -> tuple[Lock, ...]:
    """The locks on a stack.

    Args:
        backend: directory of the file backend.
        project: Pulumi project name.
        stack: stack name.

    Raises:
        EngineError: a lock file cannot be read as one.
    """
    places = (backend / place for place in lock_places(project, stack))
    return tuple(_read(file) for place in places for file in sorted(place.glob("*.json")))


def lock_places(project: str, stack: str) -> tuple[str, ...]:
    """The directories of a stack's locks, below the backend's."""
    # The second is where a backend from before Pulumi 3.61 keeps them.
    return tuple(f".pulumi/locks/organization/{each}" for each in (f"{project}/{stack}", stack))


def lock_holder(content: Mapping[str, Any]) -> LockHolder:
    """Who has taken the lock with ``content``.

    Raises:
        KeyError, TypeError, ValueError: it is no lock's.
    """
    return LockHolder(
        int(content["pid"]),
        str(content["username"]),
        str(content["hostname"]),
        datetime.fromisoformat(str(content["timestamp"])).timestamp(),
    )


def break_locks(
    found: tuple[Lock, ...],
    processes: Processes,
    say: Callable[[str], None],
    sleep: Callable[[float], None] = time.sleep,
) -> tuple[Lock, ...]:
    """Remove the locks of ``found``, if each owner is dead or can be made to end.

    Args:
        found: the locks.
        processes: the processes of this machine.
        say: takes a line of progress.
        sleep: waits that many seconds, while an owner is still exiting.

    Raises:
        EngineError: an owner lives, or is on another machine; nothing is removed then.
    """
    for lock in found:
        match _settled_owner(lock, processes, sleep):
            case Owner.DEAD:
                continue
            case Owner.HEADLESS:
                say(f"An engine runs without its command line ({lock.described}): ending it …")
                if not processes.stop(lock.pid):
                    raise _refusal(lock, f"It does not end. End it: kill -9 {lock.pid}")
            case Owner.ALIVE:
                command = processes.command(lock.pid)
                runs = f"`{command}` is running: wait" if command else "Wait"
                raise _refusal(lock, f"{runs} for it to end, or press Ctrl-C there.")
            case Owner.ELSEWHERE:
                raise _refusal(
                    lock,
                    Advice(
                        "From here it cannot be told whether that process lives. If it does not, "
                        "run `{recover}` there, or remove the lock: pulumi cancel"
                    ),
                )
    for lock in found:
        lock.path.unlink(missing_ok=True)
        lock.path.with_name(lock.path.name + ".attrs").unlink(missing_ok=True)
    return found


def _read(file: Path) -> Lock:
    try:
        found = lock_holder(json.loads(file.read_bytes()))
        return Lock(found.pid, found.username, found.hostname, found.timestamp, file)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(
            f"The lock {file} cannot be read, so its owner is not known.",
            hint=f"If nothing works on this stack, remove it: rm {file}",
        ) from error


def _settled_owner(lock: Lock, processes: Processes, sleep: Callable[[float], None]) -> Owner:
    """The owner's state after it had time to exit, if it has been signalled already."""
    for _ in range(round(_DYING_SECONDS / _LOOK_SECONDS)):
        found = owner(lock, processes)
        if found is not Owner.ALIVE:
            return found
        sleep(_LOOK_SECONDS)
    return owner(lock, processes)


def _command_in(words: Sequence[str]) -> str:
    """The command of tpuflex, without its options, that is in ``words``; empty for none."""
    names = [Path(word).name for word in words]
    if "tpuflex" not in names:
        return ""
    rest = words[names.index("tpuflex") + 1 :]
    return " ".join(("tpuflex", *[word for word in rest if word in _HOLDERS][:1]))


def _refusal(lock: Lock, hint: Advice | str) -> EngineError:
    return EngineError(f"The stack is locked by {lock.described}.", hint=hint)


class ThisMachine:
    """The processes of this machine."""

    def hostname(self) -> str:
        """Name of this machine, as the engine writes it."""
        return socket.gethostname()

    def started(self, pid: int) -> float | None:
        """When ``pid`` started; None when there is no such process, or only its remains."""
        import psutil

        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return float(process.create_time())
        except psutil.NoSuchProcess:
            return None

    def headless(self, pid: int) -> bool:
        """An engine that runs a program of another process names it by ``--client=HOST:PORT``;
        when nothing listens there any more, its command line was killed."""
        import psutil

        try:
            words = psutil.Process(pid).cmdline()
        except psutil.Error:
            return False
        address = next(
            (w.removeprefix("--client=") for w in words if w.startswith("--client=")), ""
        )
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            return False
        try:
            socket.create_connection((host, int(port)), timeout=2).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False

    def command(self, pid: int) -> str:
        """The command of tpuflex whose child the engine is; of no other program."""
        import psutil

        try:
            engine = psutil.Process(pid)
            lines = [each.cmdline() for each in (engine, *engine.parents())]
        except psutil.Error:
            return ""
        return next((found for line in lines if (found := _command_in(line))), "")

    def stop(self, pid: int) -> bool:
        """Interrupt ``pid`` as Ctrl-C would; an engine then finishes its calls in flight."""
        deadline = time.monotonic() + _STOP_SECONDS
        try:
            os.kill(pid, signal.SIGINT)
        except ProcessLookupError:
            return True
        except PermissionError:
            return False
        while self.started(pid) is not None:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True
