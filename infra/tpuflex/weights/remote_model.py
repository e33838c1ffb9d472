"""A model at a remote source, as it was listed: its files are fetched two at a time, and removed
again.

Every byte is checked against the listing. The checksums of each file are kept in a private note of
this home, so that a file which is in the bucket already need not be fetched again: the bucket's own
metadata can be set by anyone who may write there.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import shutil
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from secrets import token_hex
from threading import Event, Thread
from typing import TYPE_CHECKING, TypeVar

import google_crc32c
from pydantic import ValidationError

from tpuflex.boot.manifest import FileSums, Manifest, WeightsFile, manifest
from tpuflex.errors import InterruptedByUser, WeightsError
from tpuflex.files.trusted import creation_lock, lock_of, write_private
from tpuflex.weights.checkpoint_directory import open_file
from tpuflex.weights.model import Arrived, OpenFile, WatchedFile

if TYPE_CHECKING:
    from hashlib import _Hash

#: Files on the disk at a time: one comes while another goes.
AT_ONCE = 2
_BLOCK = 4 * 1024 * 1024
#: Seconds between two looks whether to stop, and for what is under way after that.
_LOOK = 0.2
_GRACE = 2.0
#: Files whose sums are kept; some thousand parts of large ones are a few megabytes.
_MOST_NOTES = 1000
_NOTES = "fetched-files.json"
_FETCHING = "fetching-"
_FULL = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT)
_MORE_ROOM = "Make room, or set TPUFLEX_HOME to a directory on a larger disk."

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file as it was listed, with at least one sum.

    Attributes:
        path: path in the model, with forward slashes.
        size: in bytes.
        content: names exactly this content: another one of the file has another name.
        sha256: SHA-256 in hex; empty if none was listed.
        git_id: Git's object id (SHA-1); empty if none was listed.
        crc32c: CRC32C as Cloud Storage writes it; empty if none was listed.
    """

    path: str
    size: int
    content: str
    sha256: str = ""
    git_id: str = ""
    crc32c: str = ""


#: Fetches a file into a directory, tells of its bytes as they come, and gives its place.
Fetch = Callable[[RemoteFile, Path, Arrived], Path]


class FetchedFiles:
    """The sums of files that came to this home.

    Args:
        home: tpuflex's state directory.
    """

    def __init__(self, home: Path) -> None:
        self._file = home / _NOTES

    def get(self, file: RemoteFile) -> WeightsFile | None:
        """The sums of ``file``; None if its content never came here."""
        found = self._read().get(file.content)
        if not isinstance(found, dict):
            return None
        try:
            return WeightsFile.model_validate({**found, "path": file.path, "size": file.size})
        except ValidationError:
            return None

    def put(self, file: RemoteFile, sums: WeightsFile) -> None:
        """Remember ``sums`` of ``file``.

        Raises:
            OSError: they cannot be written.
        """
        with creation_lock(self._file):
            notes = {key: each for key, each in self._read().items() if key != file.content}
            notes[file.content] = sums.model_dump(exclude={"path", "size"})
            kept = list(notes.items())[-_MOST_NOTES:]
            write_private(self._file, json.dumps(dict(kept)))

    def _read(self) -> dict[str, object]:
        try:
            document = json.loads(self._file.read_text("utf-8"))
        except (OSError, ValueError):
            return {}
        return document if isinstance(document, dict) else {}


class RemoteModel:
    """A model elsewhere, as a :class:`~tpuflex.weights.model.Model`.

    Args:
        source: names exactly this state of it, as far as there is such a name.
        files: what it has, by path.
        fetch: fetches one of them.
        wrong: what is told of a content that is not the listed one.
        home: tpuflex's state directory.
        fetched: the sums of what has come to this home.
        left_out: paths that are there and are not fetched.

    Attributes:
        source, files, left_out: as given.
        directory: where files lie while they are here; of this model alone, made for that, and
            removed afterwards.
    """

    def __init__(
        self,
        source: str,
        files: Sequence[RemoteFile],
        fetch: Fetch,
        wrong: Callable[[RemoteFile], WeightsError],
        home: Path,
        fetched: FetchedFiles,
        *,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self.source = source
        self.files = tuple(files)
        self._listed = {file.path: file for file in self.files}
        self._fetch = fetch
        self._wrong = wrong
        self.left_out = left_out
        self.directory = home / "models" / f"{_FETCHING}{token_hex(8)}"
        self._fetched = fetched
        self._stop = Event()

    @property
    def paths(self) -> tuple[str, ...]:
        """Its files, by path with forward slashes."""
        return tuple(self._listed)

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size for file in self.files)

    def lists(self, there: Manifest) -> bool:
        """Whether ``there`` is of these files, as far as was listed of them."""
        named = {file.path: file for file in there.files}
        return named.keys() == {file.path for file in self.files} and all(
            named[file.path].size == file.size
            and file.sha256 in ("", named[file.path].sha256)
            and file.crc32c in ("", named[file.path].crc32c)
            for file in self.files
        )

    def sums(self) -> dict[str, WeightsFile]:
        """The sums, by path, of those of its files that have come to this home before."""
        found = {path: self._fetched.get(file) for path, file in self._listed.items()}
        return {path: sums for path, sums in found.items() if sums is not None}

    @contextmanager
    def open(self, path: str, arrived: Arrived) -> Iterator[OpenFile]:
        """The file at ``path``, which lies in :attr:`directory` for the length of the block.

        Raises:
            WeightsError: it is not what was listed, or there is no room for it.
            InterruptedByUser: all of it was stopped.
            TpuflexError: what fetching it raises.
        """

        def came(count: int) -> None:
            self._go_on()
            arrived(count)

        file = self._listed[path]
        place = self.directory / path
        try:
            with _room(place):
                place = self._fetch(file, self.directory, came)
            sums = self._summed(file, place)
            with suppress(OSError):  # without a note it only comes once more
                self._fetched.put(file, sums)
            with WatchedFile(open_file(self.directory, path), lambda _: self._go_on()) as content:
                yield OpenFile(sums, content)
        finally:
            place.unlink(missing_ok=True)

    def _go_on(self) -> None:
        """Check that nothing has stopped what :meth:`each` does.

        Raises:
            InterruptedByUser: something has.
        """
        if self._stop.is_set():
            raise InterruptedByUser("Stopped while files were on their way.")

    def each(
        self, paths: Sequence[str], work: Callable[[str], _Answer], look: Callable[[], None]
    ) -> list[_Answer]:
        """As :meth:`tpuflex.weights.model.Model.each`, two at a time."""
        if not paths:
            return []
        with creation_lock(self.directory):
            _remove_left_behind(self.directory)
            self.directory.mkdir(mode=0o700)
            try:
                self._require_room([self._listed[path].size for path in paths])
                self._stop = Event()
                return _two_at_a_time(paths, work, look, self._stop)
            finally:
                shutil.rmtree(self.directory, ignore_errors=True)
                lock_of(self.directory).unlink(missing_ok=True)

    def manifest(self, files: Collection[WeightsFile], *, model: str, revision: str) -> Manifest:
        """As :meth:`tpuflex.weights.model.Model.manifest`."""
        try:
            return manifest(files, model=model, revision=revision)
        except ValidationError as error:
            raise WeightsError(
                f"{self.source} has {len(files)} files of {self.total_bytes} bytes, more than a"
                " manifest names"
            ) from error

    def _summed(self, file: RemoteFile, place: Path) -> WeightsFile:
        sums, crc32c, git = FileSums(), 0, git_object_id(file.size)
        with place.open("rb") as content:
            while block := content.read(_BLOCK):
                self._go_on()
                sums.update(block)
                crc32c = google_crc32c.extend(crc32c, block)
                if file.git_id:
                    git.update(block)
        crc32c_text = base64.b64encode(crc32c.to_bytes(4, "big")).decode()
        came = (sums.size, sums.sha256, git.hexdigest(), crc32c_text)
        listed = (file.size, file.sha256, file.git_id, file.crc32c)
        if any(want not in ("", found) for want, found in zip(listed, came, strict=True)):
            raise self._wrong(file)
        try:
            return WeightsFile(
                path=file.path,
                size=sums.size,
                crc32c=crc32c_text,
                sha256=sums.sha256,
                parts=sums.parts,
            )
        except ValidationError as error:
            raise WeightsError(f"{file.path!r} is not a name that can be served") from error

    def _require_room(self, sizes: Sequence[int]) -> None:
        """Check that two files of these ``sizes`` fit on the disk.

        Raises:
            WeightsError: they do not.
        """
        needed = sum(sorted(sizes)[-AT_ONCE:])
        free = shutil.disk_usage(self.directory).free
        if needed > free:
            raise WeightsError(
                f"{self.source} needs {needed / 1e9:.1f} GB in {self.directory.parent}, for two"
                f" of its files, and {free / 1e9:.1f} GB are free there",
                hint=_MORE_ROOM,
            )


def _remove_left_behind(directory: Path) -> None:
    """Remove what runs that were killed have left beside ``directory``."""
    for lock in directory.parent.glob(f"{_FETCHING}*.lock"):
        left = lock.with_suffix("")
        if left == directory:
            continue
        with suppress(BlockingIOError), creation_lock(left, waits=_let_it_be):
            shutil.rmtree(left, ignore_errors=True)
            lock.unlink(missing_ok=True)


def _let_it_be() -> None:
    raise BlockingIOError


def git_object_id(size: int) -> _Hash:
    """What computes Git's object id of a file of ``size`` bytes, as these go by
    (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects)."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)


def _two_at_a_time(
    paths: Sequence[str],
    work: Callable[[str], _Answer],
    look: Callable[[], None],
    stop: Event,
) -> list[_Answer]:
    waiting: SimpleQueue[int] = SimpleQueue()
    ended: SimpleQueue[tuple[int, _Answer | BaseException]] = SimpleQueue()
    for place in range(len(paths)):
        waiting.put(place)

    def run() -> None:
        while not stop.is_set():
            try:
                place = waiting.get_nowait()
            except Empty:
                return
            try:
                ended.put((place, work(paths[place])))
            except BaseException as error:
                ended.put((place, error))

    # Daemons: stopping it does not wait long for a server that sends nothing.
    threads = [Thread(target=run, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    answers: dict[int, _Answer] = {}
    try:
        while len(answers) < len(paths):
            try:
                place, answer = ended.get(timeout=_LOOK)
            except Empty:
                look()
                continue
            if isinstance(answer, BaseException):
                raise answer
            answers[place] = answer
    finally:
        stop.set()
        for thread in threads:
            thread.join(_GRACE / AT_ONCE)
    return [answers[place] for place in range(len(paths))]


@contextmanager
def _room(place: Path) -> Iterator[None]:
    """What cannot be written within the block for want of room is told as that of ``place``."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise WeightsError(
            f"{place} cannot be written: {error.strerror}", hint=_MORE_ROOM
        ) from error
