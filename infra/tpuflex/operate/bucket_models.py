"""Models in a bucket, fetched into a directory of this machine: as they were when they were listed,
every byte checked by the CRC32C that Cloud Storage keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import google_crc32c

from pulumi_plugin.printable import printable
from tpuflex.errors import WeightsError
from tpuflex.gcp.checkpoint_objects import CheckpointObject, CheckpointObjects
from tpuflex.gcp.weights_files import Progress
from tpuflex.naming import digest, slug
from tpuflex.only_maker import only_maker
from tpuflex.operate.checkpoint_source import GsUrl, check_headers
from tpuflex.operate.fetched_directory import fetch_directory
from tpuflex.operate.resumed_download import Download, EmptyAnswer
from tpuflex.operate.serving_files import left_out_text, serving_files

Say = Callable[[str], None]

#: Bytes of one request: large enough for its latency not to count, small enough to show progress.
_RANGE = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Listing:
    """What is fetched of a place in a bucket.

    Attributes:
        source: the place.
        files: what is fetched, by name.
        left_out: names that are not, because they are no data formats, and folders.
    """

    source: GsUrl
    files: tuple[CheckpointObject, ...]
    left_out: tuple[str, ...]

    @property
    def total_bytes(self) -> int:
        """Sum of all sizes."""
        return sum(file.size for file in self.files)

    @property
    def directory_name(self) -> str:
        """Name of a directory for exactly this: other contents have another one."""
        seen = (f"{each.name} {each.generation} {each.size} {each.crc32c}" for each in self.files)
        return f"{slug(str(self.source))[:80]}-{digest(str(self.source), *seen)}"


class BucketModels:
    """Models in buckets, kept in a directory of this machine.

    Args:
        models: where they are kept.
        objects: gives the objects at a place; makes no request.
        extra_files: shell patterns of files to take beside the data formats.
    """

    def __init__(
        self,
        models: Path,
        objects: Callable[[GsUrl], CheckpointObjects],
        extra_files: tuple[str, ...] = (),
    ) -> None:
        self._models = models
        self._objects = objects
        self._extra = extra_files

    def check(self, source: GsUrl) -> None:
        """Check that ``source`` is there and may be listed.

        Raises:
            NotFoundError, AccessError, ApiError: as :meth:`CheckpointObjects.listed`.
            WeightsError: nothing at the place could be served.
        """
        self.listing(source)

    def listing(self, source: GsUrl) -> Listing:
        """What would be fetched of ``source``, as it is now; raises what :meth:`check` raises."""
        return self._listing(source, self._objects(source))

    def directory(
        self, source: GsUrl, say: Say, transfer: Callable[[], AbstractContextManager[Progress]]
    ) -> Path:
        """The directory that holds what is at ``source`` now, fetched if necessary.

        Args:
            source: the place.
            say: called with one line per step.
            transfer: shows the progress of a transfer.

        Raises:
            NotFoundError, AccessError, ApiError: as :meth:`CheckpointObjects.listed`.
            ConflictError: a file was replaced meanwhile.
            WeightsError: nothing at the place could be served, there is not enough room, or a file
                is not what the bucket lists.
        """
        objects = self._objects(source)
        listing = self._listing(source, objects)
        directory = self._models / listing.directory_name
        with only_maker(directory):
            if not directory.is_dir():
                size = listing.total_bytes / 1e6
                say(
                    f"bucket: {len(listing.files)} files, {size:.0f} MB, of {source}, into"
                    f" {directory}{left_out_text(listing.left_out)}"
                )
                downloads = partial(_downloads, objects, listing)
                with transfer() as progress:
                    total = listing.total_bytes
                    fetch_directory(directory, str(source), total, downloads, progress)
        return directory

    def _listing(self, source: GsUrl, objects: CheckpointObjects) -> Listing:
        found = {file.name: file for file in objects.listed()}
        names, left_out = serving_files(
            str(source),
            # A folder may have an object of its own, with the prefix as its name.
            (name for name in found if name),
            self._extra,
            hint="Name the prefix below which config.json and the *.safetensors files lie:"
            " gs://BUCKET/PREFIX.",
        )
        files = tuple(found[name] for name in names)
        for file in files:
            _require_checkable(file, source)
        listing = Listing(source, files, (*left_out, *objects.nested))
        # Before tens of gigabytes are fetched; somebody may still be uploading them.
        check_headers(_Listed(objects, listing), str(source))
        return listing


class _Listed:
    """The files of a listing, as a checkpoint's."""

    def __init__(self, objects: CheckpointObjects, listing: Listing) -> None:
        self._sizes = {file.name: file.size for file in listing.files}
        self.read = objects.read

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name."""
        return self._sizes


def _require_checkable(file: CheckpointObject, source: GsUrl) -> None:
    """Check that ``file`` has a sum, and that this is of the bytes that a server would read.

    Raises:
        WeightsError: it has not.
    """
    if not file.crc32c:
        raise WeightsError(f"{source} lists {file.name} without a sum to check it by")
    if file.encoding not in ("", "identity"):
        raise WeightsError(
            f"{source}/{file.name} is stored compressed"
            f" (contentEncoding {printable(file.encoding)})",
            hint="Upload it once more as it is, without --gzip-local or --gzip-in-flight.",
        )


class _Crc32c:
    """CRC32C as :mod:`hashlib` has its sums."""

    def __init__(self) -> None:
        self._sum = 0

    def update(self, data: bytes, /) -> None:
        """Add ``data``."""
        self._sum = google_crc32c.extend(self._sum, data)

    def hexdigest(self) -> str:
        """The sum, in hex."""
        return f"{self._sum:08x}"


def _downloads(objects: CheckpointObjects, listing: Listing, directory: Path) -> list[Download]:
    """The files of ``listing`` on their way into ``directory``."""
    return [_download(objects, listing.source, file, directory) for file in listing.files]


def _download(
    objects: CheckpointObjects, source: GsUrl, file: CheckpointObject, directory: Path
) -> Download:
    """``file`` on its way into ``directory``."""
    wrong = WeightsError(
        f"{source}/{file.name}: what came is not what the bucket lists (CRC32C {file.crc32c},"
        f" {file.size} bytes)",
        hint="Run it again: the file is fetched anew.",
    )

    def failed(error: Exception, _failures: int) -> None:
        if isinstance(error, EmptyAnswer):
            raise wrong from error
        raise error  # Google's library has asked again by now

    return Download(
        place=directory / file.name,
        size=file.size,
        digest=_Crc32c,
        sum=file.crc32c,
        blocks=partial(_blocks, objects, file),
        failed=failed,
        wrong=wrong,
    )


def _blocks(
    objects: CheckpointObjects, file: CheckpointObject, start: int
) -> AbstractContextManager[Iterable[bytes]]:
    def ranges() -> Iterator[bytes]:
        for at in range(start, file.size, _RANGE):
            yield objects.read(file.name, at, _RANGE)

    return nullcontext(ranges())
