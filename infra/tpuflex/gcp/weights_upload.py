"""Sending the files of a checkpoint to a bucket, from this machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import WeightsFile
from tpuflex.errors import WeightsError
from tpuflex.gcp.checkpoint_directory import open_file
from tpuflex.gcp.weights_files import Tally, WatchedFile, translated
from tpuflex.gcp.weights_objects import TIMEOUT
from tpuflex.gcp.weights_writing import generation

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

#: Bytes per request of an upload: what a lost connection costs at most, and how often progress
#: is reported. A multiple of 256 KiB, as resumable uploads ask for.
_CHUNK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Upload:
    """What a push sends.

    Attributes:
        bucket: the bucket.
        prefix: where it goes, without a slash at the end.
        directory: the checkpoint.
        mark: metadata of every object.
        tally: told of every byte that was sent.
    """

    bucket: Bucket
    prefix: str
    directory: Path
    mark: Mapping[str, str]
    tally: Tally

    def send(self, file: WeightsFile, old: Blob | None) -> None:
        """Send ``file`` in the place of ``old``, or of none.

        Raises:
            WeightsError: it changed meanwhile.
            ConflictError: the object did.
        """
        with translated(self.bucket):
            blob = self.bucket.blob(f"{self.prefix}/{file.path}", chunk_size=_CHUNK_BYTES)
            if self.mark:
                blob.metadata = dict(self.mark)
            with WatchedFile(open_file(self.directory, file.path), self.tally.add) as source:
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
