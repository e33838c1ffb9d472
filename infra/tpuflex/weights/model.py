"""A model whose files can be read in order, wherever it is: what a push sends."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeVar

if TYPE_CHECKING:
    from tpuflex.boot.manifest import Manifest, WeightsFile

#: Takes how many more bytes of a file were read for the first time; a negative number where some
#: have to come again.
Arrived = Callable[[int], None]
#: Takes the bytes that are done, and the bytes in total; stops the work by raising.
ByteProgress = Callable[[int, int], None]
_Answer = TypeVar("_Answer")
_Item = TypeVar("_Item")
_AT_ONCE = 8


def unwatched(_done: int, _total: int) -> None:
    """The progress that is not shown."""


@dataclass(frozen=True, slots=True)
class OpenFile:
    """One file of a model, to be read now.

    Attributes:
        sums: its path, size and checksums.
        content: its bytes.
    """

    sums: WeightsFile
    content: WatchedFile


class Model(Protocol):
    """A model in a directory (:class:`~tpuflex.weights.checkpoint_directory.LocalModel`), or one
    elsewhere (:class:`~tpuflex.weights.remote_model.RemoteModel`)."""

    @property
    def source(self) -> str:
        """Names exactly this state of it; empty for what is on this machine alone."""

    @property
    def paths(self) -> Sequence[str]:
        """Its files, by path with forward slashes."""

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""

    def sums(self) -> Mapping[str, WeightsFile]:
        """The sums, by path, of those files of which they are known without that one comes from
        elsewhere.

        Raises:
            WeightsError: one cannot be read.
        """

    def lists(self, there: Manifest) -> bool:
        """Whether ``there`` is of these files, as far as that is known without reading them."""

    def open(self, path: str, arrived: Arrived) -> AbstractContextManager[OpenFile]:
        """The file at ``path``, for the length of the block.

        Raises:
            TpuflexError: it cannot be read, or is not what was listed.
        """

    def each(
        self, paths: Sequence[str], work: Callable[[str], _Answer], look: Callable[[], None]
    ) -> list[_Answer]:
        """What ``work`` gives for each of ``paths``, several at a time; the first failure stops the
        rest.

        Args:
            paths: some of its files.
            work: called from several threads.
            look: called now and then where files come from elsewhere: stops all of it by raising.
        """

    def manifest(self, files: Collection[WeightsFile], *, model: str, revision: str) -> Manifest:
        """The manifest of ``files``.

        Args:
            files: the sums of its files.
            model: name under which the model is served.
            revision: names this set of weights.

        Raises:
            WeightsError: they are more than a host takes.
        """


def manifest_of_model(
    model: Model, progress: ByteProgress = unwatched, *, name: str, revision: str
) -> Manifest:
    """The manifest that a push of ``model`` writes; sends nothing.

    Args:
        model: the model; what never came here comes, and goes again.
        progress: told of the bytes that have come, and the total; not called where all are known.
        name: name under which the model is served.
        revision: names this set of weights.

    Raises:
        TpuflexError: as :meth:`Model.open`, or there are too many files.
    """
    files = all_sums(model, progress).values()
    return model.manifest(files, model=name, revision=revision)


def all_sums(model: Model, progress: ByteProgress) -> dict[str, WeightsFile]:
    """The sums of all files of ``model``, by path; what never came here comes, and goes again.

    Raises:
        TpuflexError: as :meth:`Model.open`.
    """
    known = model.sums()
    missing = [path for path in model.paths if path not in known]
    if not missing:
        return dict(known)
    tally = Tally(model.total_bytes, progress)
    tally.add(sum(file.size for file in known.values()))

    def read(path: str) -> WeightsFile:
        with model.open(path, tally.add) as file:
            return file.sums

    came = model.each(missing, read, lambda: tally.add(0))
    return {**known, **{file.path: file for file in came}}


def in_threads(work: Callable[[_Item], _Answer], items: Iterable[_Item]) -> list[_Answer]:
    """What ``work`` gives for each of ``items``, eight at a time; the first failure stops the rest,
    and what has begun ends first."""
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        jobs = [pool.submit(work, item) for item in items]
        try:
            return [job.result() for job in jobs]
        except BaseException:
            for job in jobs:
                job.cancel()
            raise


class Tally:
    """Adds up bytes from several threads and reports the sum.

    Args:
        total: the bytes that there will be.
        progress: called with the sum and the total, by one thread at a time.
    """

    def __init__(self, total: int, progress: ByteProgress) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = Lock()

    def add(self, count: int) -> None:
        """Count ``count`` more bytes; negative when some must be sent again."""
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)


class WatchedFile(io.RawIOBase):
    """A file that reports how much of it was read, each byte once however often it is read.

    Args:
        file: the file, opened for reading; closed with this one.
        arrived: called with the number of bytes that were read for the first time.
    """

    def __init__(self, file: BinaryIO, arrived: Arrived) -> None:
        super().__init__()
        self._file = file
        self._arrived = arrived
        self._furthest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """The next ``size`` bytes."""
        data = self._file.read(-1 if size is None else size)
        position = self._file.tell()
        if position > self._furthest:
            self._arrived(position - self._furthest)
            self._furthest = position
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a place in the file."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """The present place in the file."""
        return self._file.tell()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
