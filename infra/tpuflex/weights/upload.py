"""The upload of one set of weights to its bucket: each file, only in the place of what was seen
there, and the manifest at the end."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import SOURCE_METADATA, Manifest
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.errors import ConflictError, WeightsError
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import (
    MARK,
    TIMEOUT,
    SetObjects,
    last_use_metadata,
    objects_below,
    same_content,
)

if TYPE_CHECKING:
    from google.cloud.storage import Blob  # type: ignore[import-untyped]

    from tpuflex.weights.model import OpenFile

#: Bytes per request of an upload: what a lost connection costs at most, and how often progress
#: is reported. A multiple of 256 KiB, as resumable uploads ask for.
_CHUNK_BYTES = 16 * 1024 * 1024


class Upload:
    """A set that is being written in the place of what is there. A file may be sent by several
    threads at a time, each another one.

    Args:
        there: the objects in its place, as they were seen.
        wanted: its manifest, as far as that is known yet.
    """

    def __init__(self, there: SetObjects, wanted: Manifest | None = None) -> None:
        self._there = there
        self._wanted = wanted
        self._bucket = there.bucket
        self._mark: Mapping[str, str] = MARK if there.others else {}
        self._beginning = Lock()
        self._begun = False

    def begin(self) -> None:
        """Delete the manifest that is there, once: what it names is about to change. Nothing is to
        be done where another writer of the same set has done so, or is through."""
        with self._beginning:
            if not self._begun:
                self._delete_manifest()
                self._begun = True

    def send(self, file: OpenFile) -> None:
        """Send ``file`` in the place of what was seen there, or of none.

        Raises:
            WeightsError: it changed meanwhile.
            ConflictError: the object did.
        """
        self.begin()
        sums, old = file.sums, self._there.objects.get(file.sums.path)
        with translated(self._bucket):
            blob = self._bucket.blob(f"{self._there.prefix}/{sums.path}", chunk_size=_CHUNK_BYTES)
            if self._mark:
                blob.metadata = dict(self._mark)
            blob.upload_from_file(
                file.content,
                size=sums.size,
                content_type="application/octet-stream",
                checksum="crc32c",
                if_generation_match=generation(old),
                timeout=TIMEOUT,
            )
            if blob.crc32c != sums.crc32c:
                raise WeightsError(
                    f"{sums.path} changed while it was being sent",
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

        self.begin()
        self._require_all(wanted)
        blob = self._bucket.blob(f"{self._there.prefix}/{MANIFEST_NAME}")
        told = {SOURCE_METADATA: source} if source else {}
        day = {} if used is None else last_use_metadata(used)
        if about := {**self._mark, **told, **day}:
            blob.metadata = about
        try:
            blob.upload_from_string(
                wanted.to_json(),
                content_type="application/json",
                checksum="crc32c",
                # begin() has deleted the old one: any that is there now is another push's.
                if_generation_match=0,
                timeout=TIMEOUT,
            )
        except PreconditionFailed:
            # Which may have written the same; or the answer to an earlier attempt was lost.
            there = self._manifest_object()
            if there is None or not self._is(there, wanted):
                raise

    def _delete_manifest(self) -> None:
        from google.api_core.exceptions import NotFound, PreconditionFailed

        if (manifest := self._there.manifest_object) is None:
            return
        try:
            manifest.delete(if_generation_match=generation(manifest))
        except (NotFound, PreconditionFailed):
            now = self._manifest_object()
            if now is not None and (self._wanted is None or not self._is(now, self._wanted)):
                raise

    def _manifest_object(self) -> Blob | None:
        return self._bucket.get_blob(f"{self._there.prefix}/{MANIFEST_NAME}", timeout=TIMEOUT)

    def _is(self, there: Blob, wanted: Manifest) -> bool:
        """Whether the manifest ``there`` is ``wanted``, to the byte, and written by a push."""
        text = wanted.to_json().encode()
        marked = self._mark.items() <= (there.metadata or {}).items()
        if there.size != len(text) or not marked:
            return False
        return bool(there.download_as_bytes(raw_download=True, timeout=TIMEOUT) == text)

    def _require_all(self, wanted: Manifest) -> None:
        """Check that all files of ``wanted`` are there: what is kept from earlier may have been
        removed since it was looked at, and no manifest may name what is not there."""
        present = objects_below(self._bucket, self._there.prefix)
        gone = [
            file.path for file in wanted.files if not same_content(file, present.get(file.path))
        ]
        if gone:
            raise ConflictError(
                f"{self._there.place}: {gone[0]} was removed or replaced while"
                " the others were being sent",
                status=412,
                hint="Run it again when whoever does that is done.",
            )


def generation(blob: Blob | None) -> int:
    """What a write may replace: exactly the object that was seen, or none."""
    return 0 if blob is None or blob.generation is None else int(blob.generation)


def note_source(manifest: Blob, source: str) -> None:
    """Note at the object of a complete set's ``manifest`` that its files are those of ``source``,
    too. It is there all the while: hosts may be waiting for it.

    Raises:
        google.api_core.exceptions.GoogleAPICallError: the caller may not, or another client writes
        there.
    """
    manifest.metadata = {**(manifest.metadata or {}), SOURCE_METADATA: source}
    manifest.patch(if_metageneration_match=manifest.metageneration, timeout=TIMEOUT)
