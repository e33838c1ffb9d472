"""The file of a run: JSON Lines, the run first, then each point as soon as it is there.

A line counts once its end is on the disk, so whatever kills a run takes the point that was being
measured, and no other.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from pydantic import BaseModel, ValidationError

from tpuflex.advice import Advice
from tpuflex.errors import TpuflexError
from tpuflex.files.trusted import open_regular
from tpuflex.measure.run import Load, Point, Run
from tpuflex.terminal.markdown import shortened

Line = TypeVar("Line", bound=BaseModel)

#: Bytes of a line that are read: a point of 100,000 requests has some 10 MB.
_LONGEST_LINE = 256 * 1024 * 1024
#: Letters of a value that an error shows.
_LONGEST_VALUE = 400


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a file holds.

    Attributes:
        run: the run.
        points: its points so far, in the order of the file.
        end: bytes up to the end of its last whole line.
    """

    run: Run
    points: tuple[Point, ...]
    end: int


def read_run(path: Path) -> Recorded:
    """Read the file of a run; what a kill has left of its last line is left out.

    Raises:
        TpuflexError: there is no such file, or a line of it is not what it should be.
    """
    try:
        with open_regular(path) as file:
            return _read(file, path)
    except OSError as error:
        raise TpuflexError(f"{path} cannot be read: {error.strerror}.") from error


def _read(file: IO[bytes], path: Path) -> Recorded:
    run: Run | None = None
    points: dict[tuple[int, int, int, int], Point] = {}
    end = 0
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), 1):
        if not line.endswith(b"\n"):
            break
        if run is None:
            run = _parsed(Run, line, path, number)
        else:
            point = _parsed(Point, line, path, number)
            if points.setdefault(point.load.key, point) is not point:
                raise _wrong(path, number, "it has a point that an earlier line has already")
        end += len(line)
    if run is None:
        raise TpuflexError(
            f"{path} holds no run: its first line is missing or not whole.",
            hint="No point was measured: remove it, and begin again.",
        )
    return Recorded(run, tuple(points.values()), end)


def _parsed(kind: type[Line], line: bytes, path: Path, number: int) -> Line:
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        what = f"{where}: {first['msg']}" if where else first["msg"]
        raise _wrong(
            path, number, f"it is no {kind.__name__.lower()} of a benchmark: {what}"
        ) from error


def _wrong(path: Path, number: int, why: str) -> TpuflexError:
    return TpuflexError(f"{path}, line {number} cannot be used: {why}.")


class RunFile:
    """A file that points are added to, by this process alone.

    Attributes:
        path: where it is.
        run: the run.
        points: its points so far.
    """

    def __init__(self, path: Path, file: IO[bytes], run: Run, points: tuple[Point, ...]) -> None:
        self.path = path
        self.run = run
        self._file = file
        self._points = list(points)

    @property
    def points(self) -> tuple[Point, ...]:
        """The points so far."""
        return tuple(self._points)

    @property
    def missing(self) -> tuple[Load, ...]:
        """The points that are not there yet, in the order in which they are measured."""
        there = {point.load.key for point in self._points}
        return tuple(load for load in self.run.loads if load.key not in there)

    def append(self, point: Point) -> None:
        """Add ``point``; once this returns, it survives a kill.

        Raises:
            TpuflexError: it cannot be written.
        """
        _write(self._file, self.path, point)
        self._points.append(point)


def _write(file: IO[bytes], path: Path, line: BaseModel) -> None:
    try:
        file.write(line.model_dump_json().encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    except OSError as error:
        raise TpuflexError(f"{path} cannot be written: {error.strerror}.") from error


@contextmanager
def create(path: Path, run: Run) -> Iterator[RunFile]:
    """A new file for ``run``, while the block runs.

    Raises:
        TpuflexError: there is such a file already, or it cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")
    except FileExistsError as error:
        raise TpuflexError(
            f"{path} is there already.",
            hint=Advice(
                "Name another file, or go on with it: {bench_run} --resume {path}", path=path
            ),
        ) from error
    except OSError as error:
        raise TpuflexError(f"{path} cannot be made: {error.strerror}.") from error
    with file:
        _lock(file, path)
        _write(file, path, run)
        yield RunFile(path, file, run, ())


@contextmanager
def resume(path: Path) -> Iterator[RunFile]:
    """A file that is there, to add the points that are missing, while the block runs.

    Raises:
        TpuflexError: it cannot be read or written, or another process adds points to it.
    """
    try:
        file = open_regular(path, os.O_RDWR)
    except OSError as error:
        raise TpuflexError(f"{path} cannot be opened: {error.strerror}.") from error
    with file:
        _lock(file, path)
        found = _read(file, path)
        file.seek(found.end)
        file.truncate()
        yield RunFile(path, file, found.run, found.points)


def _lock(file: IO[bytes], path: Path) -> None:
    """Hold the file until it is closed, or this process ends, however it ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise TpuflexError(
            f"Another process adds points to {path}.",
            hint=Advice("Wait for it, or write another file: {bench_run} --output-file FILE"),
        ) from error


def differences(recorded: Run, now: Run) -> tuple[str, ...]:
    """Why points measured now do not belong to the run that was ``recorded``, each with both
    values; empty if they do."""
    pairs: dict[str, tuple[object, object]] = {
        "stack": (recorded.stack, now.stack),
        "settings of the stack": (recorded.stack_hash[:12], now.stack_hash[:12]),
        "load generator": (recorded.generator, now.generator),
        "its command": (" ".join(recorded.command), " ".join(now.command)),
    }
    for name in type(now.server).model_fields:
        pairs[name] = (getattr(recorded.server, name), getattr(now.server, name))

    def shown(value: object) -> str:
        return "none" if value in ("", ()) else shortened(str(value), _LONGEST_VALUE)

    return tuple(
        f"{name}: {shown(before)} then, {shown(after)} now"
        for name, (before, after) in pairs.items()
        if before != after
    )
