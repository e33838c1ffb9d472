"""A checkpoint in a bucket that weights are taken from, as it was when it was listed: each object
by its generation, read in parts, and every byte of a push checked by the CRC32C that Cloud Storage
keeps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pulumi_plugin.printable import printable
from tpuflex.boot.manifest import MAX_FILES
from tpuflex.errors import ConflictError, NotFoundError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.model_files import ServerNeeds, require_paths
from tpuflex.settings.weights_source import GsUrl
from tpuflex.weights.checkpoint import whole_model
from tpuflex.weights.model import Arrived
from tpuflex.weights.remote_model import FetchedFiles, RemoteFile, RemoteModel
from tpuflex.weights.storage_errors import translated_errors

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

_TIMEOUT = (10.0, 60.0)
#: Bytes of one request: large enough for its latency not to count, small enough to show progress.
_RANGE = 8 * 1024 * 1024


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


@dataclass(frozen=True, slots=True)
class Listing:
    """What is fetched of a place in a bucket.

    Attributes:
        source: the place.
        files: what is fetched, by name.
        left_out: names that are not.
    """

    source: GsUrl
    files: tuple[CheckpointObject, ...]
    left_out: tuple[str, ...]


def list_model(objects: CheckpointObjects, source: GsUrl, needs: ServerNeeds) -> Listing:
    """What would be fetched of ``source``, as it is now; its headers are read.

    Args:
        objects: what is there.
        source: the place.
        needs: what the server reads.

    Raises:
        NotFoundError, AccessError, ApiError: as :meth:`CheckpointObjects.listed`.
        WeightsError: it holds no model, or one that is incomplete or damaged.
    """
    # A folder may have an object of its own, with the prefix or a slash at the end of its name.
    found = {file.name: file for file in objects.listed() if not _is_folder(file.name)}
    require_paths(found, str(source))

    def check(names: Iterable[str]) -> None:
        for name in names:
            _require_checkable(found[name], source)

    # Before tens of gigabytes are fetched; an upload may still be under way.
    model = whole_model(
        _Listed(objects, found),
        str(source),
        needs,
        hint="Upload what is missing or damaged again, or name the prefix below which config.json"
        " and the *.safetensors files lie: gs://BUCKET/PREFIX.",
        check=check,
    )
    return Listing(source, tuple(found[name] for name in model.taken), model.left_out)


def _is_folder(name: str) -> bool:
    return not name or name.endswith("/")


def bucket_model(
    objects: CheckpointObjects,
    source: GsUrl,
    needs: ServerNeeds,
    home: Path,
    fetched: FetchedFiles,
) -> RemoteModel:
    """The model at ``source`` as it is now.

    Args:
        objects: what is there.
        source: the place.
        needs: what the server reads.
        home: where its files lie for a while.
        fetched: what came to this home before.

    Raises:
        TpuflexError: as :func:`list_model`.
    """
    listing = list_model(objects, source, needs)

    def fetch(file: RemoteFile, directory: Path, arrived: Arrived) -> Path:
        place = directory / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        # A buffer would be written once more where it is closed, and fail there, too.
        with place.open("wb", buffering=0) as content:
            for at in range(0, file.size, _RANGE):
                block = memoryview(objects.read(file.path, at, _RANGE))
                arrived(len(block))
                while block:
                    block = block[content.write(block) :]
        return place

    def wrong(file: RemoteFile) -> WeightsError:
        return WeightsError(
            f"{source}/{file.path}: what came is not what the bucket lists (CRC32C {file.crc32c},"
            f" {file.size} bytes)",
            hint="Run it again: the file is fetched anew.",
        )

    files = [
        RemoteFile(
            each.name, each.size, f"{source}/{each.name}#{each.generation}", crc32c=each.crc32c
        )
        for each in listing.files
    ]
    return RemoteModel(str(source), files, fetch, wrong, home, fetched, left_out=listing.left_out)


class _Listed:
    """The files of a listing, as a checkpoint's."""

    def __init__(self, objects: CheckpointObjects, files: Mapping[str, CheckpointObject]) -> None:
        self._sizes = {name: file.size for name, file in files.items()}
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
