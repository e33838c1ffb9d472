"""The local side of a push: which files, their checksums, and reading them with progress."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from pathlib import Path

import google_crc32c
import requests
from pydantic import ValidationError

from tpuflex.boot.manifest import MANIFEST_NAME, WeightsFile
from tpuflex.errors import AccessError, ApiError, ConflictError, NotFoundError, WeightsError

_BLOCK = 4 * 1024 * 1024


def local_files(directory: Path, pool: Executor) -> list[WeightsFile]:
    """Every file below ``directory`` with its checksums; hidden ones are left out, they are
    caches and version control.

    Raises:
        WeightsError: there is no such directory, it holds no files, or one cannot be read.
    """
    if not directory.is_dir():
        raise WeightsError(
            f"{directory} is not a directory",
            hint="Name the directory that holds config.json and the *.safetensors files.",
        )
    paths = sorted(
        path
        for path in directory.rglob("*")
        if path.is_file()
        and path.name != MANIFEST_NAME
        and not any(part.startswith(".") for part in path.relative_to(directory).parts)
    )
    if not any(path.name == "config.json" for path in paths):
        raise WeightsError(
            f"{directory} is not a checkpoint: it holds no config.json",
            hint="Name the directory that holds config.json and the *.safetensors files.",
        )
    try:
        return list(pool.map(lambda path: _checksums(directory, path), paths))
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error


def _checksums(directory: Path, path: Path) -> WeightsFile:
    sha256, crc32c, size = hashlib.sha256(), 0, 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sha256.update(block)
            crc32c = google_crc32c.extend(crc32c, block)
            size += len(block)
    name = path.relative_to(directory).as_posix()
    try:
        return WeightsFile(
            path=name,
            size=size,
            crc32c=base64.b64encode(crc32c.to_bytes(4, "big")).decode(),
            sha256=sha256.hexdigest(),
        )
    except ValidationError as error:
        raise WeightsError(f"{name!r} is not a name that can be served: rename the file") from error


class WatchedFile(io.RawIOBase):
    """A file that reports how much of it was read, each byte once however often it is read.

    Args:
        path: the file.
        advanced: called with the number of bytes that were read for the first time.
    """

    def __init__(self, path: Path, advanced: Callable[[int], None]) -> None:
        super().__init__()
        self._file = path.open("rb")
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


@contextmanager
def translated_errors(bucket: str) -> Iterator[None]:
    """Turn what Google's library raises into our own errors, naming ``bucket``."""
    from google.api_core import exceptions

    where = f"gs://{bucket}"
    try:
        yield
    except exceptions.NotFound as error:
        raise NotFoundError(
            f"{where} does not exist", hint="Run `tpuflex up`, which makes it."
        ) from error
    except (exceptions.Forbidden, exceptions.Unauthorized) as error:
        raise AccessError(
            f"{where}: {error.message}",
            hint="Writing weights needs the role Storage Object Admin on the bucket.",
        ) from error
    except exceptions.PreconditionFailed as error:
        raise ConflictError(
            f"{where}: somebody else is writing the same weights",
            status=412,
            hint="Wait until they are done, then run it again.",
        ) from error
    except exceptions.GoogleAPICallError as error:
        raise ApiError(f"{where}: {error.message}", status=int(error.code or 0)) from error
    except (requests.RequestException, exceptions.RetryError) as error:
        raise ApiError(f"{where} cannot be reached ({type(error).__name__})") from error
    except OSError as error:
        raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error
