"""Fetch files into a directory, several at a time: resumed where they stopped, every byte checked.

A file that is under way ends in ``.part``: another run goes on with it. A file has its name once it
is whole and has the hash that its source says.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TYPE_CHECKING, Protocol

from tpuflex.errors import InterruptedByUser, WeightsError

if TYPE_CHECKING:
    from io import FileIO

#: Files fetched at a time: one stream rarely fills a line.
PARALLELISM = 4
#: Ending of a file that is under way.
UNDER_WAY = ".part"
_BLOCK = 4 * 1024 * 1024
#: Seconds between two looks whether to stop, and for what is just being written after that.
_LOOK = 0.2
_GRACE = 1.0
_MORE_ROOM = "Make room, or set TPUFLEX_HOME to a directory on a larger disk."


class EmptyAnswer(Exception):  # noqa: N818 - what happened, and not always an error
    """A request for the rest of a file was answered without any of it, as gateways do; another one
    may bring more."""


class Digest(Protocol):
    """A sum that is computed as bytes come, as :mod:`hashlib` has them."""

    def update(self, data: bytes, /) -> None:
        """Add ``data``."""

    def hexdigest(self) -> str:
        """The sum, in hexadecimal."""


@dataclass(frozen=True)
class Download:
    """One file to fetch.

    Args:
        place: the name that it gets.
        size: its bytes.
        digest: makes what computes its hash.
        sum: what that says, in hexadecimal, of the right content.
        blocks: the content from a byte on, by one request.
        failed: called with what ended a request and the number of failures in a row; returns
            after a pause where another request may bring more, and else raises what is told.
        wrong: what is told of a content that is another one.
    """

    place: Path
    size: int
    digest: Callable[[], Digest]
    sum: str
    blocks: Callable[[int], AbstractContextManager[Iterable[bytes]]]
    failed: Callable[[Exception, int], None]
    wrong: WeightsError


def require_room(what: str, total_bytes: int, directory: Path) -> None:
    """Check that ``directory``, which has some of the files already, has room for all of them.

    Raises:
        WeightsError: it has not.
    """
    present = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
    needed, free = total_bytes - present, shutil.disk_usage(directory).free
    if needed > free:
        raise WeightsError(
            f"{what} needs {needed / 1e9:.1f} GB in {directory.parent}, and {free / 1e9:.1f} GB"
            " are free there",
            hint=_MORE_ROOM,
        )


def fetch_all(downloads: Iterable[Download], arrived: Callable[[int], None]) -> None:
    """Fetch what is missing of ``downloads``.

    Args:
        downloads: what to fetch.
        arrived: called with the bytes that are there, of every file and as they come; now and then
            with none, so that it can stop a download that brings nothing by raising.

    Raises:
        WeightsError: a content is not what its source says, or cannot be written.
        TpuflexError: what ``failed`` of a download raises; the others are stopped then.
    """
    stop = Event()
    files = [_Running(download, arrived, stop) for download in downloads]
    waiting, ended = SimpleQueue[_Running](), SimpleQueue[BaseException | None]()
    for file in files:
        waiting.put(file)

    def work() -> None:
        with suppress(Empty):
            while not stop.is_set():
                ended.put(_error_of(waiting.get_nowait().fetch))

    # Daemons: whoever stops a download does not wait for a server that sends nothing.
    threads = [Thread(target=work, daemon=True) for _ in range(min(PARALLELISM, len(files)))]
    for thread in threads:
        thread.start()
    try:
        left = len(files)
        while left:
            try:
                error = ended.get(timeout=_LOOK)
            except Empty:
                if any(file.arriving for file in files):
                    arrived(0)
                continue
            if error is not None:
                raise error
            left -= 1
    except BaseException:
        stop.set()
        until = time.monotonic() + _GRACE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        raise


def _error_of(work: Callable[[], None]) -> BaseException | None:
    try:
        work()
    except BaseException as error:
        return error
    return None


class _Running:
    """One file on its way.

    Attributes:
        arriving: whether more of it is awaited.
    """

    def __init__(self, download: Download, arrived: Callable[[int], None], stop: Event) -> None:
        self._wanted, self._arrived, self._stop = download, arrived, stop
        self._digest = download.digest()
        self.arriving = False

    def fetch(self) -> None:
        """Fetch what is missing of the file, and give it its name if its sum is right."""
        wanted = self._wanted
        if wanted.place.is_file():
            self._arrived(wanted.size)
            return
        wanted.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = wanted.place.with_name(f"{wanted.place.name}{UNDER_WAY}")
        # A buffer would be written once more where it is closed, and fail there, too.
        with path.open("a+b", buffering=0) as part:
            part.seek(0)
            while block := part.read(_BLOCK):
                self._take(block)
            self.arriving = True
            self._receive(part)
            self.arriving = False
            with _written(wanted.place):
                os.fsync(part.fileno())
        if path.stat().st_size != wanted.size or self._digest.hexdigest() != wanted.sum:
            path.unlink()
            raise wanted.wrong
        path.rename(wanted.place)

    def _receive(self, part: FileIO) -> None:
        """Receive the rest, until it is as long as it should be; or longer, and then wrong."""
        failures, tell = 0, part.tell
        while tell() < self._wanted.size:
            before = tell()
            try:
                with self._wanted.blocks(before) as blocks:
                    for block in blocks:
                        self._take(block)
                        with _written(self._wanted.place):
                            _write(part, block)
                        if tell() > self._wanted.size:
                            return
                if tell() == before:
                    raise EmptyAnswer("an answer without content")
                failures = 0
            except (WeightsError, InterruptedByUser):
                raise
            except Exception as error:
                # What brought something was no failure: a line may break often in 60 GB.
                failures = 1 if tell() > before else failures + 1
                self._wanted.failed(error, failures)

    def _take(self, block: bytes) -> None:
        if self._stop.is_set():
            raise InterruptedByUser("Stopped while files were being fetched.")
        self._digest.update(block)
        self._arrived(len(block))


@contextmanager
def _written(place: Path) -> Iterator[None]:
    """What cannot be written within the block is told as that of the file ``place``."""
    try:
        yield
    except OSError as error:
        raise WeightsError(
            f"{place} cannot be written: {error.strerror or error}", hint=_MORE_ROOM
        ) from error


def _write(part: FileIO, block: bytes) -> None:
    """Write all of ``block``: a disk with room for less takes that much first."""
    left = memoryview(block)
    while left:
        left = left[part.write(left) :]
