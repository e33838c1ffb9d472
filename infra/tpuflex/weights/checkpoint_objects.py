"""The files of a checkpoint in a bucket, read in parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MAX_FILES
from tpuflex.errors import ConflictError, NotFoundError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.weights.local_files import translated_errors

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

_TIMEOUT = (10.0, 60.0)


@dataclass(frozen=True, slots=True)
class CheckpointObject:
    """A file as it was listed.

    Attributes:
        name: its name below the prefix.
        size: in bytes.
        generation: of the object; another content has another one.
        crc32c: the CRC32C that Cloud Storage keeps of it, as it writes it; empty if it says none.
        encoding: how its bytes are stored (``contentEncoding``), such as `gzip`; empty for as they
            are.
    """

    name: str
    size: int
    generation: int
    crc32c: str
    encoding: str = ""


class CheckpointObjects:
    """The objects below one prefix of a bucket, as they were when they were listed.

    Args:
        bucket: the bucket; made by :func:`checkpoint_objects` outside of tests.
        prefix: where the checkpoint is, without a slash at the end; empty for the whole bucket.
    """

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._blobs: dict[str, Blob] = {}

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name; raises what :meth:`listed` raises."""
        return {file.name: file.size for file in self.listed()}

    def listed(self) -> tuple[CheckpointObject, ...]:
        """Every file, by name. What is read later is read of exactly these.

        Raises:
            NotFoundError: there is no such bucket, or nothing at the prefix.
            WeightsError: there are more files than a set of weights may have.
            AccessError: the caller may not list them.
        """
        with self._translated():
            found = self._bucket.list_blobs(
                prefix=self._prefix or None,
                max_results=MAX_FILES + 1,
                timeout=_TIMEOUT,
            )
            self._blobs = {str(blob.name).removeprefix(self._prefix): blob for blob in found}
        if not self._blobs:
            raise NotFoundError(
                f"gs://{self._bucket.name}/{self._prefix} holds no files",
                hint="Name the prefix below which config.json lies: gs://BUCKET/PREFIX.",
            )
        if len(self._blobs) > MAX_FILES:
            raise WeightsError(
                f"gs://{self._bucket.name}/{self._prefix} holds more than {MAX_FILES} files",
                hint="Name the prefix of one checkpoint.",
            )
        return tuple(_object(name, blob) for name, blob in sorted(self._blobs.items()))

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``.

        Raises:
            ConflictError: the file was replaced or deleted since it was listed.
            AccessError: the caller may not read it.
        """
        listed = self._blobs[name]
        end = min(start + length, int(listed.size or 0))
        if start >= end:
            return b""  # no range can be asked for
        with self._translated(), self._as_listed(name):
            data = self._bucket.blob(listed.name).download_as_bytes(
                start=start,
                end=end - 1,
                raw_download=True,
                # Sizes and header must be of one file; a part has no checksum to compare.
                if_generation_match=listed.generation,
                checksum=None,
                timeout=_TIMEOUT,
            )
        return bytes(data[:length])

    @contextmanager
    def _as_listed(self, name: str) -> Iterator[None]:
        from google.api_core.exceptions import NotFound, PreconditionFailed

        try:
            yield
        except (NotFound, PreconditionFailed) as error:
            gone = isinstance(error, NotFound)
            raise ConflictError(
                f"gs://{self._bucket.name}/{self._prefix}{name}"
                f" {'is not there any more' if gone else 'was replaced since it was listed'}",
                status=404 if gone else 412,
                hint="Run it again once nobody changes the files there.",
            ) from error

    def _translated(self) -> AbstractContextManager[None]:
        return translated_errors(
            str(self._bucket.name),
            missing="Name a bucket that exists: gs://BUCKET/PREFIX.",
            forbidden="Reading a checkpoint needs the role Storage Object Viewer on the bucket.",
        )


def _object(name: str, blob: Blob) -> CheckpointObject:
    return CheckpointObject(
        name,
        int(blob.size or 0),
        int(blob.generation or 0),
        str(blob.crc32c or ""),
        str(blob.content_encoding or ""),
    )


def checkpoint_objects(
    bucket: str, prefix: str, *, environ: Mapping[str, str]
) -> CheckpointObjects:
    """The checkpoint at ``gs://bucket/prefix``; makes no request.

    Raises:
        AccessError: the credentials do not belong to the endpoints.
    """
    return CheckpointObjects(storage_bucket(bucket, project=None, environ=environ), prefix)
