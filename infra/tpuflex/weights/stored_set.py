"""One set of weights in a bucket: its objects as they were listed, its manifest, and what the
metadata of the manifest's object says of its source and its last use.

Cloud Storage does not say when an object was last read. Metadata can be changed and the content,
its generation and its hash stay (https://cloud.google.com/storage/docs/metadata#editable), so that
no host sees it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import SOURCE_METADATA, Manifest, WeightsFile
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.errors import ConflictError
from tpuflex.planning.model_files import WeightsProblem

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

#: Seconds to connect to Cloud Storage, and to wait for its next bytes.
TIMEOUT = (10.0, 120.0)
#: Metadata of an object that a push has written, so that a later one may replace it. In a bucket
#: that others use, nothing without it is replaced or listed as weights: a name proves nothing.
MARK: dict[str, str] = {"tpuflex-pushed": "1"}
#: Names that an error lists.
_NAMED = 3
#: Metadata of the manifest's object: the last day on which an endpoint is known to have been made,
#: or to have been there, for these weights.
USED_METADATA = "tpuflex-used"


def was_pushed(blob: Blob) -> bool:
    """Whether a push has written ``blob``."""
    return MARK.items() <= (blob.metadata or {}).items()


def require_replaceable(there: SetObjects, paths: Iterable[str]) -> None:
    """Check that nothing of others would be replaced in a bucket of the user's own.

    Args:
        there: what is there.
        paths: the files that would be sent.

    Raises:
        ConflictError: something would; nothing was sent.
    """
    if not there.others:
        return
    present, manifest = there.objects, there.manifest_object
    foreign = [path for path in paths if path in present and not was_pushed(present[path])]
    if manifest is not None and not was_pushed(manifest) and there.manifest is None:
        foreign.append(MANIFEST_NAME)
    if not foreign:
        return
    more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
    raise ConflictError(
        f"{there.place} holds files that no push has written, and that a push would replace:"
        f" {', '.join(foreign[:_NAMED])}{more}. Nothing was sent.",
        hint="Write another prefix to tpuflex:model.weights.bucket, or another revision.",
    )


def pushed_objects(objects: Mapping[str, Blob], found: FoundManifest | None) -> dict[str, Blob]:
    """Those of the ``objects`` of one prefix that are a set of weights: what a push has written, or
    the manifest there names; by path. Empty where they are something else."""
    manifest = None if found is None else found.manifest
    named = {MANIFEST_NAME, *(file.path for file in manifest.files)} if manifest else set()
    return {path: blob for path, blob in objects.items() if path in named or was_pushed(blob)}


@dataclass(frozen=True, slots=True)
class SetObjects:
    """The objects of one set.

    Attributes:
        bucket: their bucket.
        prefix: where they are, without a slash at the end.
        objects: what is there, by path below the prefix.
        found: the manifest that is there.
        others: whether the bucket is the user's own, where others write, too.
    """

    bucket: Bucket
    prefix: str
    objects: Mapping[str, Blob]
    found: FoundManifest | None
    others: bool = False

    @property
    def place(self) -> str:
        """Where it is, as ``gs://BUCKET/PREFIX``."""
        return f"gs://{self.bucket.name}/{self.prefix}"

    @property
    def manifest(self) -> Manifest | None:
        """The manifest, if it is one that could be served."""
        return None if self.found is None else self.found.manifest

    @property
    def manifest_object(self) -> Blob | None:
        """The object that is, or should be, the manifest."""
        return self.objects.get(MANIFEST_NAME)

    def sets_below(self) -> tuple[str, ...]:
        """The folders below it, each with a slash at its end, that are sets of their own: they have
        a manifest, which is no part of this set."""
        own = set() if self.manifest is None else {file.path for file in self.manifest.files}
        return tuple(
            path.removesuffix(MANIFEST_NAME)
            for path in self.objects
            if path.endswith(f"/{MANIFEST_NAME}") and path not in own
        )

    def is_part_of_push(self, blob: Blob) -> bool:
        """Whether a push has written ``blob``: in a bucket that tpuflex has made nobody else
        writes, in the user's own it is marked."""
        return not self.others or was_pushed(blob)


def objects_beside(objects: Mapping[str, Blob], manifest: Manifest) -> dict[str, Blob]:
    """Those of ``objects`` that are no part of the set of ``manifest``, by path."""
    named = {MANIFEST_NAME, *(file.path for file in manifest.files)}
    return {path: blob for path, blob in objects.items() if path not in named}


def objects_below(bucket: Bucket, prefix: str) -> dict[str, Blob]:
    """What is below ``prefix`` (without a slash at the end) now, by path below it."""
    start = f"{prefix}/"
    return {
        str(blob.name).removeprefix(start): blob
        for blob in bucket.list_blobs(prefix=start, timeout=TIMEOUT)
    }


def source_of_set(manifest: Blob | None) -> str:
    """Where the set was fetched from, as the object of its ``manifest`` says; empty if it does
    not."""
    metadata = None if manifest is None else manifest.metadata
    return str((metadata or {}).get(SOURCE_METADATA, ""))[:300]


@dataclass(frozen=True, slots=True)
class FoundManifest:
    """A manifest in a bucket, trusted or not.

    Attributes:
        sha256: SHA-256 of the object in hex; empty if it is too long to be a manifest, and so was
            not read.
        manifest: what it says; None if it is not a manifest that could be served.
    """

    sha256: str
    manifest: Manifest | None


@dataclass(frozen=True, slots=True)
class WeightsCheck:
    """What is in a bucket, compared with its manifest.

    Attributes:
        sha256: SHA-256 of the manifest in hex.
        manifest: the manifest.
        problems: where the bucket does not match it, or a server could not load what it names.
        beside: files below the same prefix that it does not name, which no host reads: what a push
            of other weights has left, or another client has put there.
    """

    sha256: str
    manifest: Manifest
    problems: tuple[WeightsProblem, ...]
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """One set of weights in a bucket.

    Attributes:
        prefix: where it is.
        manifest: its manifest, None while it is incomplete.
        files: how many objects are there, the manifest not counted.
        total_bytes: their size.
        source: where they were fetched from, with its commit; empty if that is not kept.
        beside: how many of the objects its manifest does not name.
        beside_bytes: their size.
        used: the last day of which it is known that they were used; None if nothing says.
        written: when the last of the objects was written.
        wrong: how many of the files that its manifest names are not there, or have another size or
            checksum.
    """

    prefix: str
    manifest: Manifest | None
    files: int
    total_bytes: int
    source: str = ""
    beside: int = 0
    beside_bytes: int = 0
    used: dt.date | None = None
    written: dt.datetime | None = None
    wrong: int = 0

    @property
    def complete(self) -> bool:
        """Whether all is there that its manifest names."""
        return self.manifest is not None and not self.wrong


def last_used(metadata: Mapping[str, str] | None) -> dt.date | None:
    """The day that ``metadata`` names; None if it names none."""
    try:
        return dt.date.fromisoformat((metadata or {}).get(USED_METADATA, ""))
    except ValueError:
        return None


def last_use_metadata(day: dt.date) -> dict[str, str]:
    """Metadata that names ``day``."""
    return {USED_METADATA: day.isoformat()}


def same_content(file: WeightsFile, blob: Blob | None) -> bool:
    """Whether ``blob`` holds ``file``, by size and checksum."""
    return blob is not None and (blob.size, blob.crc32c) == (file.size, file.crc32c)


def files_text(count: int) -> str:
    """``count`` files, in words."""
    return "1 file" if count == 1 else f"{count} files"


def last_used_text(one: StoredWeights) -> str:
    """When ``one`` was last used, in words."""
    return "not known" if one.used is None else one.used.isoformat()
