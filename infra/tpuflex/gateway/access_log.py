"""A line of JSON for each request that has ended: who asked for what, and what became of it. No
prompt, no answer and no key is in it.

A thread writes the lines, so that a slow disk, or a terminal that was stopped, holds up no request.
What it cannot keep up with is dropped, and the log says how much.
"""

from __future__ import annotations

import json
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from tpuflex.errors import AccessError
from tpuflex.files.trusted import open_regular
from tpuflex.gateway.outcome import Outcome

#: Standard output, as a name of a file.
STANDARD_OUTPUT = "-"
#: Requests that may wait to be written, and how many lines are made at once: while a thread makes
#: them, no request goes on.
_WAITING = 10_000
_BATCH = 50
#: Seconds until a request that has ended is written, with those that end meanwhile: to wake a
#: thread for each costs as much as half of all policy.
_GATHER_S = 0.1
_FIELDS = tuple(each.name for each in fields(Outcome))
#: Seconds for the last ones, when the gateway ends.
_END_S = 2.0


class AccessLog:
    """Writes how requests have ended.

    Args:
        write: writes whole lines, in a thread; by an OSError they are lost.
        now: the time of day.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._write, self._now = write, now
        self._waiting: deque[tuple[datetime, Outcome]] = deque()
        self._wakes = threading.Event()
        self._ends = threading.Event()
        #: Lines for which there was no room, that could not be written, and that the log has said.
        self._refused = self._lost = self._said = 0

    @property
    def dropped(self) -> int:
        """How many requests are not in the log."""
        return self._refused + self._lost

    def ended(self, outcome: Outcome) -> None:
        """Log a request that has ended, unless too many wait to be written."""
        if len(self._waiting) >= _WAITING:
            self._refused += 1
            return
        self._waiting.append((self._now(), outcome))
        if not self._wakes.is_set():
            self._wakes.set()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write while the block runs; then what is left, for two seconds at most."""
        thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            self._wakes.set()
            thread.join(_END_S)

    def _run(self) -> None:
        while not self._ends.is_set() or self._waiting:
            self._wakes.wait()
            self._ends.wait(_GATHER_S)
            self._wakes.clear()
            while self._waiting:
                count = min(len(self._waiting), _BATCH)
                self._write_lines([self._waiting.popleft() for _ in range(count)])

    def _write_lines(self, ended: list[tuple[datetime, Outcome]]) -> None:
        dropped = self.dropped
        lines = [_line(outcome, at) for at, outcome in ended]
        if dropped > self._said:
            lines.append({"time": _time(self._now()), "dropped": dropped - self._said})
        try:
            self._write("".join(f"{json.dumps(each)}\n" for each in lines).encode())
        except OSError:
            self._lost += len(ended)
        else:
            self._said = dropped


@contextmanager
def open_access_log(name: str | None, files: Path, output: int) -> Iterator[AccessLog | None]:
    """The access log, which is written while the block runs; None without a name.

    A file that was moved away, as by logrotate, is made again.

    Args:
        name: of its file; or :data:`STANDARD_OUTPUT`.
        files: the folder that the name is relative to.
        output: descriptor of standard output.

    Raises:
        AccessError: the file cannot be written to.
    """
    if name is None:
        yield None
        return
    if name == STANDARD_OUTPUT:
        log = AccessLog(lambda lines: _write_all(output, lines))
        with log.writing():
            yield log
        return
    try:
        file = _File(files / name)
    except OSError as error:
        raise AccessError(
            f"The access log {files / name} cannot be written: {error.strerror or error}.",
            hint="Write another file for access_log, or - for standard output.",
        ) from error
    log = AccessLog(file.write)
    with closing(file), log.writing():
        yield log


class _File:
    """A file that is appended to, and made again where it was moved away."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = self._opened()
        #: Whether a line was cut, as by a disk that was full.
        self._cut = False

    def write(self, lines: bytes) -> None:
        """Append ``lines``.

        Raises:
            OSError: it cannot be written.
        """
        if not self._is_in_place():
            self._file.close()
            self._file = self._opened()
        if self._cut:
            _write_all(self._file.fileno(), b"\n")
        self._cut = True
        _write_all(self._file.fileno(), lines)
        self._cut = False

    def close(self) -> None:
        """Close it."""
        self._file.close()

    def _opened(self) -> BinaryIO:
        return open_regular(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND)

    def _is_in_place(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except (FileNotFoundError, ValueError):  # moved; or closed, and not opened since
            return False


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def _line(outcome: Outcome, at: datetime) -> dict[str, object]:
    line: dict[str, object] = {"time": _time(at)}
    for name in _FIELDS:
        value = getattr(outcome, name)
        line[name] = round(value, 4) if isinstance(value, float) else value
    return line


def _time(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
