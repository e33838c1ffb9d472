"""A model in a bucket, as it was when it was listed: each object by its generation, every byte
checked by the CRC32C that Cloud Storage keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulumi_plugin.printable import printable
from tpuflex.errors import WeightsError
from tpuflex.planning.model_files import ServerNeeds, require_paths
from tpuflex.settings.weights_source import GsUrl
from tpuflex.weights.checkpoint_objects import CheckpointObject, CheckpointObjects
from tpuflex.weights.checkpoint_source import whole_model
from tpuflex.weights.remote_model import Arrived, FetchedFiles, RemoteFile, RemoteModel

#: Bytes of one request: large enough for its latency not to count, small enough to show progress.
_RANGE = 8 * 1024 * 1024


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

    # Before tens of gigabytes are fetched; somebody may still be uploading them.
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
