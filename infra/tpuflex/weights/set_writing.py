"""Writing one set of weights to its bucket: the files, each only in the place of what was seen
there, and the manifest at the end."""

from __future__ import annotations

import datetime as dt
import io
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, BinaryIO

from tpuflex.boot.manifest import (
    MANIFEST_NAME,
    Manifest,
    WeightsFile,
)
from tpuflex.boot.manifest_document import SOURCE_METADATA
from tpuflex.errors import ConflictError, WeightsError
from tpuflex.weights.checkpoint_directory import open_file
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import TIMEOUT, noted, objects_below, same

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

#: Brings one file in the place of an object that was seen, or of none.
Bring = Callable[[WeightsFile, "Blob | None"], None]
#: Bytes per request of an upload: what a lost connection costs at most, and how often progress
#: is reported. A multiple of 256 KiB, as resumable uploads ask for.
_CHUNK_BYTES = 16 * 1024 * 1024
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class SetWriting:
    """A set that is being written.

    Attributes:
        bucket: the bucket.
        prefix: where it goes, without a slash at the end.
        mark: metadata of every object.
    """

    bucket: Bucket
    prefix: str
    mark: Mapping[str, str]

    def begin(self, present: Mapping[str, Blob], wanted: Manifest | None) -> None:
        """Delete the manifest that is ``present``: what it names is about to change. Nothing is to
        be done where somebody else who writes the set of ``wanted``, if that is known yet, has done
        so, or is through."""
        from google.api_core.exceptions import NotFound, PreconditionFailed

        if (manifest := present.get(MANIFEST_NAME)) is None:
            return
        try:
            manifest.delete(if_generation_match=generation(manifest))
        except (NotFound, PreconditionFailed):
            there = self._manifest_object()
            if there is not None and (wanted is None or not self._is(there, wanted)):
                raise

    def bring(
        self,
        pool: ThreadPoolExecutor,
        files: Iterable[WeightsFile],
        present: Mapping[str, Blob],
        bring: Bring,
    ) -> None:
        """Bring ``files``, several at a time, in the place of those that are ``present``; the first
        failure stops the rest."""
        jobs = [pool.submit(bring, file, present.get(file.path)) for file in files]
        try:
            for job in jobs:
                job.result()
        except BaseException:
            for job in jobs:
                job.cancel()
            raise

    def send(
        self,
        directory: Path,
        advanced: Callable[[int], None],
        file: WeightsFile,
        old: Blob | None,
    ) -> None:
        """Send ``file`` of ``directory`` in the place of ``old``, or of none; ``advanced`` is
        called with the bytes that were sent.

        Raises:
            WeightsError: it changed meanwhile.
            ConflictError: the object did.
        """
        with translated(self.bucket):
            blob = self.bucket.blob(f"{self.prefix}/{file.path}", chunk_size=_CHUNK_BYTES)
            if self.mark:
                blob.metadata = dict(self.mark)
            with WatchedFile(open_file(directory, file.path), advanced) as source:
                blob.upload_from_file(
                    source,
                    size=file.size,
                    content_type="application/octet-stream",
                    checksum="crc32c",
                    if_generation_match=generation(old),
                    timeout=TIMEOUT,
                )
            if blob.crc32c != file.crc32c:
                raise WeightsError(
                    f"{file.path} changed while it was being sent",
                    hint="Leave the directory alone and push again.",
                )

    def finish(self, wanted: Manifest, source: str, used: dt.date | None) -> None:
        """Write the manifest, if all that it names is there.

        Args:
            wanted: the manifest.
            source: where the files were fetched from; empty if that is not told.
            used: the day of their last use, if it is kept.

        Raises:
            ConflictError: something is not there any more, or another push has written another
                one.
        """
        from google.api_core.exceptions import PreconditionFailed

        self._require_all(wanted)
        blob = self.bucket.blob(f"{self.prefix}/{MANIFEST_NAME}")
        told = {SOURCE_METADATA: source} if source else {}
        day = {} if used is None else noted(used)
        if about := {**self.mark, **told, **day}:
            blob.metadata = about
        try:
            blob.upload_from_string(
                wanted.to_json(),
                content_type="application/json",
                checksum="crc32c",
                # Ours was deleted before: one that is there now was written by another push.
                if_generation_match=0,
                timeout=TIMEOUT,
            )
        except PreconditionFailed:
            # Which may have written the same; or the answer to an earlier attempt was lost.
            there = self._manifest_object()
            if there is None or not self._is(there, wanted):
                raise

    def _manifest_object(self) -> Blob | None:
        return self.bucket.get_blob(f"{self.prefix}/{MANIFEST_NAME}", timeout=TIMEOUT)

    def _is(self, there: Blob, wanted: Manifest) -> bool:
        """Whether the manifest ``there`` is ``wanted``, to the byte, and written by a push."""
        text = wanted.to_json().encode()
        marked = self.mark.items() <= (there.metadata or {}).items()
        if there.size != len(text) or not marked:
            return False
        return bool(there.download_as_bytes(raw_download=True, timeout=TIMEOUT) == text)

    def _require_all(self, wanted: Manifest) -> None:
        """Check that all files of ``wanted`` are there: what is kept from earlier may have been
        removed since it was looked at, and no manifest may name what is not there."""
        present = objects_below(self.bucket, self.prefix)
        gone = [file.path for file in wanted.files if not same(file, present.get(file.path))]
        if gone:
            raise ConflictError(
                f"gs://{self.bucket.name}/{self.prefix}: {gone[0]} was removed or replaced while"
                " the others were being sent",
                status=412,
                hint="Run it again when whoever does that is done.",
            )


def generation(blob: Blob | None) -> int:
    """What a write may replace: exactly the object that was seen, or none."""
    return 0 if blob is None or blob.generation is None else int(blob.generation)


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


def note_source(manifest: Blob, source: str) -> None:
    """Note at the object of a complete set's ``manifest`` that its files are those of ``source``,
    too. It is there all the while: hosts may be waiting for it.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the caller may not, or somebody writes there.
    """
    manifest.metadata = {**(manifest.metadata or {}), SOURCE_METADATA: source}
    manifest.patch(if_metageneration_match=manifest.metageneration, timeout=TIMEOUT)
