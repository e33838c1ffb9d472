"""Long work that goes on without the server: each operation is a `tpuflex` command in a process
group of its own, whose progress, result and exit code are files in the state directory.

So a server that is started again finds it, and a person ends it as any command: by Ctrl-C, which is
``kill -INT`` of its process, or by `tpuflex down`. It runs as long as its result is locked: that
file is the standard output of its process and of the command, so that the lock is released only
when both have ended, in whatever way.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from tpuflex.advice import Advice
from tpuflex.errors import ConflictError, NotFoundError
from tpuflex.files.trusted import (
    child_environment,
    creation_lock,
    open_regular,
    own_directory,
    write_private,
)
from tpuflex.operate.process_group import last_words

State = Literal["running", "succeeded", "failed", "lost"]
#: Its files: what it is, its progress, the document of its command, its exit code.
_ABOUT, _PROGRESS, _RESULT, _CODE = "operation.json", "progress.log", "result.json", "exit_code"
#: Runs a command; its first argument is the file that gets the exit code.
_KEEPING_CODE = (sys.executable, "-P", "-m", "tpuflex.mcp_server.operation_process")
#: Bytes that are read of a result, and of the end of the progress.
_LONGEST_RESULT = 4 * 1024 * 1024
_LONGEST_PROGRESS = 64 * 1024


@dataclass(frozen=True, slots=True)
class About:
    """What is known of an operation from its beginning.

    Attributes:
        id: its handle.
        action: what it does, such as ``up``.
        stack: the stack that it works on.
        plan_hash: the hash of the plan that was approved.
        command: what runs.
        began: when it began, in UTC.
        process: its process, which leads a group of its own, and passes SIGINT and SIGTERM on.
    """

    id: str
    action: str
    stack: str
    plan_hash: str
    command: tuple[str, ...]
    began: str
    process: int


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it is now.

    Attributes:
        about: what it is.
        state: lost is one that has ended without an exit code.
        exit_code: that of its command; None until it has ended.
        progress: the last lines of its progress.
        result: the document of the command's ``--json``, once there is one.
    """

    about: About
    state: State
    exit_code: int | None
    progress: tuple[str, ...]
    result: Any

    def to_json(self) -> dict[str, object]:
        """The document of a handle."""
        about = self.about
        return {
            "operation": about.id,
            "action": about.action,
            "stack": about.stack,
            "plan_hash": about.plan_hash,
            "command": list(about.command),
            "began": about.began,
            "process": about.process,
            "state": self.state,
            "exit_code": self.exit_code,
            "progress": list(self.progress),
            "result": self.result,
            "next": _NEXT[self.state],
        }


_NEXT: dict[State, str] = {
    "running": "call get_operation again in a minute; a person ends it with kill -INT PROCESS",
    "succeeded": "call status",
    "failed": "read its result and its progress; doctor and diagnose say more",
    "lost": "its process was killed: `tpuflex recover` repairs the state, then plan again",
}


@dataclass(frozen=True)
class Operations:
    """The operations of a project.

    Attributes:
        root: the project's directory.
        home: its state directory.
        command: what runs tpuflex.
    """

    root: Path
    home: Path
    command: tuple[str, ...]

    @property
    def _directory(self) -> Path:
        return self.home / "mcp" / "operations"

    def start(
        self,
        action: str,
        stack: str,
        plan_hash: str,
        words: Sequence[str],
        environ: Mapping[str, str],
    ) -> Operation:
        """Start ``tpuflex WORDS`` on ``stack``.

        Args:
            action: what that is.
            stack: the stack.
            plan_hash: the hash of the plan that was approved.
            words: the command's words, with what holds it to that plan.
            environ: the environment that it gets.

        Raises:
            ConflictError: another operation on the stack is running.
        """
        with creation_lock(self._directory / stack):
            self._require_none_running(stack)
            began = datetime.now(UTC)
            id_ = f"{action}-{stack}-{began:%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
            place = self._directory / id_
            own_directory(place)
            typed = ("-C", str(self.root), "--stack", stack, "--json", *words)
            process = _started(place, (*self.command, *typed), environ, self.root)
            about = About(
                id_,
                action,
                stack,
                plan_hash,
                ("tpuflex", *typed),
                began.isoformat(timespec="seconds"),
                process.pid,
            )
            write_private(place / _ABOUT, json.dumps(asdict(about), indent=1))
        return self.read(id_)

    def _require_none_running(self, stack: str) -> None:
        for place in self._places():
            if _is_running(place) and _about(place).stack == stack:
                raise ConflictError(
                    f"{place.name} works on stack {stack}: nothing was started.",
                    hint=Advice("get_operation says how far it is."),
                )

    def newest(self, most: int) -> tuple[Operation, ...]:
        """The newest operations, the newest first."""
        newest = sorted(self._places(), key=_begun, reverse=True)
        return tuple(self.read(each.name) for each in newest[:most])

    def _places(self) -> Iterator[Path]:
        return (each.parent for each in self._directory.glob(f"*/{_ABOUT}"))

    def read(self, id_: str, lines: int = 20) -> Operation:
        """The operation ``id_``, with the last ``lines`` of its progress.

        Raises:
            NotFoundError: there is none.
        """
        place = self._directory / id_
        if Path(id_).name != id_ or not (place / _ABOUT).is_file():
            raise NotFoundError(
                f"There is no operation {id_!r} in this project.",
                hint="get_operation without a name lists the newest.",
            )
        running = _is_running(place)
        code = _code_of(place)  # after it: what has ended has written it before
        state: State = "running"
        if code is not None:
            state = "failed" if code else "succeeded"
        elif not running:
            state = "lost"
        progress = _end_of(place / _PROGRESS, _LONGEST_PROGRESS).splitlines()
        result = None if state == "running" else _result_of(place)
        return Operation(_about(place), state, code, tuple(progress[-lines:]), result)


def _started(
    place: Path, words: Sequence[str], environ: Mapping[str, str], root: Path
) -> subprocess.Popen[bytes]:
    """The process of ``words``, whose files are in ``place``."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    result = os.open(place / _RESULT, flags, 0o600)
    progress = os.open(place / _PROGRESS, flags, 0o600)
    try:
        fcntl.flock(result, fcntl.LOCK_EX | fcntl.LOCK_NB)
        process = subprocess.Popen(
            [*_KEEPING_CODE, str(place / _CODE), *words],
            stdin=subprocess.DEVNULL,
            stdout=result,
            stderr=progress,
            cwd=root,
            env=child_environment(environ),
            start_new_session=True,
        )
    finally:
        os.close(result)
        os.close(progress)
    threading.Thread(target=process.wait, daemon=True).start()  # else it stays as a zombie
    return process


def _begun(place: Path) -> float:
    return (place / _ABOUT).stat().st_mtime


def _about(place: Path) -> About:
    document = json.loads(_end_of(place / _ABOUT, _LONGEST_PROGRESS))
    return About(**{**document, "command": tuple(document["command"])})


def _is_running(place: Path) -> bool:
    """Whether the process of the operation at ``place`` has its lock, or its command has."""
    with open_regular(place / _RESULT, os.O_RDONLY | os.O_NOFOLLOW) as result:
        try:
            fcntl.flock(result, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _code_of(place: Path) -> int | None:
    text = _end_of(place / _CODE, 16).strip()
    return int(text) if text.isdecimal() else None


def _result_of(place: Path) -> Any:
    try:
        return json.loads(_end_of(place / _RESULT, _LONGEST_RESULT))
    except ValueError:
        return None


def _end_of(path: Path, most: int) -> str:
    """The last ``most`` bytes of a file, as text; empty of one that is not there."""
    try:
        with open_regular(path, os.O_RDONLY | os.O_NOFOLLOW) as file:
            return last_words(file, most)
    except FileNotFoundError:
        return ""
