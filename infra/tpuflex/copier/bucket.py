"""Files of a bucket, by range and generation, with the machine's own account."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import RefusedError, UnreachableError
from tpuflex.copier.job import BucketOrigin, JobFile
from tpuflex.copier.storage import Objects


class BucketFiles:
    """The files of a model in a bucket, as they were when they were listed.

    Args:
        origin: names the place.
        objects: those of its bucket.
    """

    def __init__(self, origin: BucketOrigin, objects: Objects) -> None:
        self._origin = origin
        self._objects = objects

    def blocks(self, file: JobFile) -> Iterator[bytes]:
        """The content of ``file``, in blocks; asked for again from where it broke off.

        Raises:
            CopyError: Cloud Storage refuses, cannot be reached, has another file by now, or sends
                more than it lists.
        """
        name = self._origin.name(file.path)
        try:
            yield from self._objects.blocks(name, file.generation, file.size)
        except UnreachableError as error:
            raise CopyError("source-unreachable", f"{file.path}: no answer ({error})") from error
        except ValueError as error:
            raise self.wrong(file) from error
        except RefusedError as error:
            raise self._refusal(file, error) from error

    def wrong(self, file: JobFile) -> CopyError:
        """What is raised of a content of ``file`` that is another one."""
        return CopyError(
            "source-content",
            f"{file.path}: what came is not what {self._origin} lists (CRC32C {file.crc32c},"
            f" {file.size} bytes)",
        )

    def _refusal(self, file: JobFile, error: RefusedError) -> CopyError:
        text = f"{file.path}: Cloud Storage answered with {error.status} for {self._origin}"
        if error.passing:
            return CopyError("source-unreachable", text)
        if error.status == 404 or self._replaced(file):
            return CopyError(
                "source-changed", f"{self._origin}/{file.path} has changed since it was listed"
            )
        return CopyError("source-refused", text)

    def _replaced(self, file: JobFile) -> bool:
        """Whether another object has the name of ``file`` by now. Without the right to list a
        bucket, which the machine has not, Cloud Storage says 403 also of what is not there
        (https://cloud.google.com/storage/docs/access-control/iam-permissions)."""
        with suppress(UnreachableError, RefusedError):
            live = self._objects.find(self._origin.name(file.path))
            return live is not None and live.generation != file.generation
        return False
