"""Writing one set of weights to its bucket: the files, each only in the place of what was seen
there, and the manifest at the end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import MANIFEST_NAME, Manifest, WeightsFile
from tpuflex.boot.manifest_document import SOURCE_METADATA
from tpuflex.errors import ConflictError, WeightsError
from tpuflex.weights.checkpoint_directory import open_file
from tpuflex.weights.local_files import WatchedFile, translated
from tpuflex.weights.objects import TIMEOUT, objects_below
from tpuflex.weights.usage import noted

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

#: Brings one file in the place of an object that was seen, or of none.
Bring = Callable[[WeightsFile, "Blob | None"], None]
#: Bytes per request of an upload: what a lost connection costs at most, and how often progress
#: is reported. A multiple of 256 KiB, as resumable uploads ask for.
_CHUNK_BYTES = 16 * 1024 * 1024


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


def same(file: WeightsFile, blob: Blob | None) -> bool:
    """Whether ``blob`` holds ``file``, by size and checksum."""
    return blob is not None and (blob.size, blob.crc32c) == (file.size, file.crc32c)


def generation(blob: Blob | None) -> int:
    """What a write may replace: exactly the object that was seen, or none."""
    return 0 if blob is None or blob.generation is None else int(blob.generation)
