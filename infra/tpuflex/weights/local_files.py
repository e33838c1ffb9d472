"""The local side of a push: which files, their checksums, and reading them with progress."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

import google_crc32c
import requests
from pydantic import ValidationError

from tpuflex.boot.manifest import MAX_FILES, MAX_PARTS, PART_BYTES, Manifest, WeightsFile, manifest
from tpuflex.boot.manifest_document import FileSums
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError, WeightsError
from tpuflex.google.rpc_errors import requester_is_to_pay, requester_pays
from tpuflex.queued_resource.causes import Cause, remedy, unpaid
from tpuflex.weights.checkpoint_directory import LocalModel, open_file

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]

_BLOCK = 4 * 1024 * 1024

Progress = Callable[[int, int], None]


def local_manifest(origin: LocalModel, pool: Executor, *, model: str, revision: str) -> Manifest:
    """The manifest that a push of ``origin`` writes; reads every file, sends nothing.

    Args:
        origin: the model in a directory.
        pool: reads several files at a time.
        model: name under which the model is served.
        revision: names this set of weights.

    Raises:
        WeightsError: one of the files cannot be read, or is no file of the directory's own, or
            there are too many.
    """
    directory, names = origin.directory, origin.files
    files: tuple[WeightsFile, ...] = ()
    try:
        files = tuple(pool.map(lambda name: _checksums(directory, name), names))
        return manifest(files, model=model, revision=revision)
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        raise WeightsError(
            f"{directory} holds {len(names)} files of {sum(file.size for file in files)} bytes,"
            f" more than the {MAX_FILES} files or {MAX_PARTS * PART_BYTES} bytes of a manifest"
        ) from error


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


class WatchedFile(io.RawIOBase):
    """A file that reports how much of it was read, each byte once however often it is read.

    Args:
        file: the file, opened for reading; closed with this one.
        advanced: called with the number of bytes that were read for the first time.
    """

    def __init__(self, file: BinaryIO, advanced: Callable[[int], None]) -> None:
        super().__init__()
        self._file = file
        self._advanced = advanced
        self._furthest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """The next ``size`` bytes."""
        data = self._file.read(-1 if size is None else size)
        position = self._file.tell()
        if position > self._furthest:
            self._advanced(position - self._furthest)
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


class Tally:
    """Adds up bytes from several threads and reports the sum.

    Args:
        total: the bytes that there will be.
        progress: called with the sum and the total, by one thread at a time.
    """

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._done = 0
        self._lock = Lock()

    def add(self, count: int) -> None:
        """Count ``count`` more bytes; negative when some must be sent again."""
        with self._lock:
            self._done += count
            self._progress(self._done, self._total)


@contextmanager
def translated_errors(
    bucket: str,
    *,
    project: str = "PROJECT",
    missing: str = "Run `tpuflex weights push`, which makes it.",
    forbidden: str = "Writing weights needs the role Storage Object Admin on the bucket.",
) -> Iterator[None]:
    """Turn what Google's library raises into our own errors, naming ``bucket``.

    Args:
        bucket: its name.
        project: whose it is.
        missing: what to do if it does not exist.
        forbidden: what to do if the caller may not do this.
    """
    from google.api_core import exceptions

    where = f"gs://{bucket}"
    try:
        yield
    except exceptions.NotFound as error:
        raise NotFoundError(f"{where} does not exist", hint=missing) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        text = str(error.message)
        raise AccessError(
            f"{where}: {text}",
            hint=remedy(Cause.BILLING, project=project) if unpaid(text) else forbidden,
        ) from error
    except exceptions.PreconditionFailed as error:
        raise ConflictError(
            f"{where}: somebody else is writing the same weights",
            status=412,
            hint="Wait until they are done, then run it again.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        status = int(error.code or 0)
        if requester_is_to_pay(status, str(error.message)):
            raise requester_pays(where) from error
        raise ApiError(f"{where}: {error.message}", status=status) from error
    except (requests.RequestException, exceptions.RetryError) as error:
        raise ApiError(f"{where} cannot be reached ({type(error).__name__})") from error
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error


def translated(bucket: Bucket) -> AbstractContextManager[None]:
    """The same for what is asked of ``bucket`` by its own client."""
    return translated_errors(str(bucket.name), project=str(bucket.client.project or "PROJECT"))
