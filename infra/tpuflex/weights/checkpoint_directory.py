"""The files of a checkpoint's directory, and nothing that lies elsewhere.

A downloaded checkpoint is foreign: a symbolic link in it may point to any file that the user can
read, which a push would publish. So what is opened is a regular file within the directory; the
links of a snapshot in the cache of huggingface_hub, into the cache's blobs, are the one exception.
"""

from __future__ import annotations

import base64
import os
import shlex
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, TypeVar

import google_crc32c
from pydantic import ValidationError

from pulumi_plugin.printable import is_printable, printable
from tpuflex.boot.manifest import (
    MAX_FILES,
    MAX_PARTS,
    PART_BYTES,
    FileSums,
    Manifest,
    WeightsFile,
    manifest,
)
from tpuflex.errors import WeightsError
from tpuflex.planning.model_files import CONFIG, WeightsProblem, not_servable, require_paths
from tpuflex.weights.model import Arrived, OpenFile, WatchedFile, in_threads

#: What huggingface_hub names the folder of a model in its cache
#: (https://huggingface.co/docs/huggingface_hub/guides/manage-cache).
_CACHED = "models--"
_SNAPSHOTS = "snapshots"
#: So many folders are named in one error.
_NAMED = 10
_BLOCK = 4 * 1024 * 1024
_Answer = TypeVar("_Answer")


@dataclass(frozen=True)
class LocalModel:
    """A model in a directory, as a :class:`~tpuflex.weights.model.Model`.

    Attributes:
        directory: the directory.
        paths: what of it is pushed, by path with forward slashes, sorted.
        left_out: what is not.
        source: empty: no name on this machine means anything elsewhere.
    """

    directory: Path
    paths: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    source: str = ""

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size for file in self._sums.values())

    def sums(self) -> Mapping[str, WeightsFile]:
        """The sums of all its files, which are read for that once.

        Raises:
            WeightsError: one cannot be read, or is no file of the directory's own.
        """
        return self._sums

    @cached_property
    def _sums(self) -> dict[str, WeightsFile]:
        try:
            found = in_threads(lambda path: _checksums(self.directory, path), self.paths)
        except OSError as error:
            raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error
        return {file.path: file for file in found}

    def lists(self, there: Manifest) -> bool:
        """Whether ``there`` is of these files."""
        return {file.path: file for file in there.files} == self._sums

    @contextmanager
    def open(self, path: str, arrived: Arrived) -> Iterator[OpenFile]:
        """The file at ``path``, for the length of the block.

        Raises:
            WeightsError: it is not any more what it was.
            OSError: it cannot be read.
        """
        with WatchedFile(open_file(self.directory, path), arrived) as content:
            yield OpenFile(self._sums[path], content)

    def each(
        self, paths: Sequence[str], work: Callable[[str], _Answer], look: Callable[[], None]
    ) -> list[_Answer]:
        """As :meth:`tpuflex.weights.model.Model.each`."""
        del look  # the bytes that are sent tell often enough
        return in_threads(work, paths)

    def manifest(self, files: Collection[WeightsFile], *, model: str, revision: str) -> Manifest:
        """As :meth:`tpuflex.weights.model.Model.manifest`."""
        try:
            return manifest(files, model=model, revision=revision)
        except ValidationError as error:
            raise WeightsError(
                f"{self.directory} holds {len(files)} files of {self.total_bytes} bytes, more than"
                f" the {MAX_FILES} files or {MAX_PARTS * PART_BYTES} bytes of a manifest"
            ) from error


def model_directory(directory: Path) -> Path:
    """Where the files are of the model that ``directory`` names: there, or, for a model's folder in
    the cache of huggingface_hub, in its snapshot of `main`.

    Raises:
        WeightsError: it is that cache, or a folder in it without such a snapshot; or the snapshot
            is a link.
    """
    if (directory / CONFIG).exists():
        return _own_snapshot(directory.absolute(), directory)
    if directory.name.startswith(_CACHED) and (directory / _SNAPSHOTS).is_dir():
        return _main_snapshot(directory)
    models = [
        path
        for root in (directory, directory / "hub")
        for path in sorted(root.glob(f"{_CACHED}*"))
        if (path / _SNAPSHOTS).is_dir()
    ]
    if models:
        raise WeightsError(
            f"{directory} is a cache of huggingface_hub, and not the model in it",
            hint=f"Name the folder of a model: {_named(models)}.",
        )
    return directory


def directory_sizes(directory: Path) -> dict[str, int]:
    """Bytes of each file below ``directory``, by path with forward slashes; hidden ones are left
    out, they are caches and version control. What leads nowhere, or is no regular file, has -1.

    Raises:
        WeightsError: there is no such directory, it cannot be read, or a name in it cannot be
            shown.
    """
    if not directory.is_dir():
        raise WeightsError(
            f"{directory} is not a directory",
            hint=f"Name the directory that holds {CONFIG} and the *.safetensors files.",
        )
    names = sorted(_names(directory))
    require_paths(names, str(directory))
    return {name: _size(directory / name) for name in names}


def require_own_files(directory: Path, names: Collection[str]) -> None:
    """Check that all of ``names`` are regular files of ``directory``.

    Raises:
        WeightsError: one is a link to elsewhere, which a push would publish, or leads nowhere.
    """
    found = [
        WeightsProblem(name, problem) for name in names if (problem := _problem(directory, name))
    ]
    if found:
        copy = shlex.join(("cp", "-rL", str(directory), f"{directory.name}-copy"))
        raise not_servable(
            str(directory),
            found,
            f"If the links lead to files of this model, copy it with them, `{copy}`, and name the"
            " copy; if one leads nowhere, download the model again. Nothing was sent.",
        )


def open_file(directory: Path, name: str) -> BinaryIO:
    """The file ``name`` of ``directory``, opened only if it still is a regular file of its own.

    Raises:
        WeightsError: it is not any more.
        OSError: it cannot be read.
    """
    problem = _problem(directory, name)
    if problem:
        raise WeightsError(
            f"{directory}: {name} is {problem}",
            hint="Run it again once nothing changes the directory.",
        )
    # What it was a moment ago it may not be now: no link is followed, and a pipe does not block.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.fdopen(os.open(os.path.realpath(directory / name), flags), "rb")
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise WeightsError(f"{directory}: {name} is not a regular file any more")
    return file


def _main_snapshot(directory: Path) -> Path:
    """The snapshot of `main` of the model whose folder in the cache is ``directory``."""
    from huggingface_hub import try_to_load_from_cache

    repository = directory.name.removeprefix(_CACHED).replace("--", "/")
    try:
        found = try_to_load_from_cache(repository, CONFIG, cache_dir=directory.parent)
    except ValueError:  # no name that the Hub gives
        found = None
    if isinstance(found, str) and is_printable(found):
        snapshot = Path(found).parent
        return _own_snapshot(directory.absolute() / _SNAPSHOTS / snapshot.name, snapshot)
    raise WeightsError(
        f"{directory} is a model's folder in the cache of huggingface_hub, without a snapshot of"
        f" main that holds {CONFIG}",
        hint=f"Name one of its snapshots: {_named(sorted((directory / _SNAPSHOTS).iterdir()))}.",
    )


def _own_snapshot(expected: Path, found: Path) -> Path:
    """``found``, unless ``expected`` is a snapshot's place in a model's folder and it is not there:
    the folder is foreign, and a push would publish where its links lead.

    Raises:
        WeightsError: it is elsewhere.
    """
    folder, real = expected.parent, found.resolve()
    if folder.name == _SNAPSHOTS and real != folder.parent.resolve() / folder.name / expected.name:
        raise WeightsError(
            f"{printable(str(found))} is no snapshot in {folder.parent}: it leads to"
            f" {printable(str(real))}. Nothing was sent.",
            hint="Name that directory if it holds the model you mean.",
        )
    return found


def _named(places: Collection[Path]) -> str:
    more = f" or one of {len(places) - _NAMED} more" if len(places) > _NAMED else ""
    return ", ".join(printable(str(place)) for place in list(places)[:_NAMED]) + more


def _names(directory: Path) -> Iterator[str]:
    """Everything in ``directory`` that is not a directory; links to directories, too."""

    def refuse(error: OSError) -> None:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error

    for folder, folders, files in os.walk(directory, onerror=refuse):
        where = Path(folder).relative_to(directory)
        folders[:] = [name for name in folders if not name.startswith(".")]
        links = [name for name in folders if Path(folder, name).is_symlink()]
        for name in (*files, *links):
            if not name.startswith("."):
                yield (where / name).as_posix()


def _size(path: Path) -> int:
    try:
        found = path.stat()
    except OSError:
        return -1
    return found.st_size if stat.S_ISREG(found.st_mode) else -1


def _problem(directory: Path, name: str) -> str:
    """What is wrong with the file ``name`` of ``directory``; empty if nothing is."""
    path = directory / name
    try:
        real = Path(os.path.realpath(path, strict=True))
        mode = real.stat().st_mode
    except OSError as error:
        return f"a link that leads nowhere ({error.strerror})"
    if stat.S_ISDIR(mode):
        return f"a link to a directory ({real})"
    if not any(real.is_relative_to(place) for place in _places(directory)):
        return f"a link to a file elsewhere ({real})"
    return "" if stat.S_ISREG(mode) else "not a regular file"


def _places(directory: Path) -> Iterator[Path]:
    """Where the files of ``directory`` may lie: in it, and for a snapshot in a cache of
    huggingface_hub in the blobs of the model, and in those that all models of the cache share
    (its ``utils/_shared_blobs.py``)."""
    root = directory.resolve()
    yield root
    model = root.parent.parent
    if root.parent.name == _SNAPSHOTS:
        yield model / "blobs"
        shared = model.parent / "blobs"
        if model.name.startswith(_CACHED) and (shared / ".huggingface-shared-blobs").is_file():
            yield shared


class DirectoryFiles:
    """The files below a directory.

    Args:
        directory: the directory.
        only: the one file that is asked about; by default all are.
    """

    def __init__(self, directory: Path, only: str = "") -> None:
        self._directory = directory
        self._only = only

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name.

        Raises:
            WeightsError: the directory cannot be read, or the one file is a link to elsewhere or
                no regular file.
        """
        if not self._only:
            return directory_sizes(self._directory)
        try:
            with open_file(self._directory, self._only) as file:
                return {self._only: os.fstat(file.fileno()).st_size}
        except OSError as error:
            raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``.

        Raises:
            WeightsError: the file cannot be read, or is a link to elsewhere or no regular file.
        """
        try:
            with open_file(self._directory, name) as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            path = self._directory / name
            raise WeightsError(f"{path} cannot be read: {error.strerror}") from error


def _checksums(directory: Path, name: str) -> WeightsFile:
    sums, crc32c = FileSums(), 0
    with open_file(directory, name) as file:
        while block := file.read(_BLOCK):
            sums.update(block)
            crc32c = google_crc32c.extend(crc32c, block)
    try:
        return WeightsFile(
            path=name,
            size=sums.size,
            crc32c=base64.b64encode(crc32c.to_bytes(4, "big")).decode(),
            sha256=sums.sha256,
            parts=sums.parts,
        )
    except ValidationError as error:
        raise WeightsError(f"{name!r} is not a name that can be served: rename the file") from error
