"""The sets of weights in a bucket: find, list, verify them, and push another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from tpuflex.advice import Advice
from tpuflex.boot.manifest import MAX_MANIFEST_BYTES, manifest_sha256, read_manifest
from tpuflex.catalog.weight_formats import MANIFEST_NAME, allowed_patterns, fits
from tpuflex.errors import NotFoundError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.model_files import (
    MAX_INDEX_BYTES,
    ServerNeeds,
    WeightsProblem,
    index_of,
    indexed_files,
    model_files,
)
from tpuflex.weights.push import Push, PushReport, send
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import (
    TIMEOUT,
    FoundManifest,
    SetObjects,
    StoredWeights,
    WeightsCheck,
    last_used,
    objects_below,
    objects_beside,
    pushed_objects,
    same_content,
    source_of_set,
)

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

    from tpuflex.google.timing import Settling, Timing
    from tpuflex.settings.bucket import ExistingBucket


class WeightsBucket:
    """The sets of weights in one bucket.

    Args:
        bucket: the bucket; made by :func:`weights_bucket` outside of tests.
        existing: the bucket and the prefix that are the user's own, which others may use, too.
    """

    def __init__(self, bucket: Bucket, existing: ExistingBucket | None = None) -> None:
        self._bucket = bucket
        self._existing = existing

    def push(self, push: Push) -> PushReport:
        """Carry out ``push`` in this bucket; raises as :func:`tpuflex.weights.push.send`."""
        return send(push, self.contents)

    def find(self, prefix: str) -> FoundManifest | None:
        """The manifest at ``prefix``; None if there is none, or no such bucket."""
        try:
            with self._translated():
                return self._read(
                    self._bucket.get_blob(f"{prefix}/{MANIFEST_NAME}", timeout=TIMEOUT)
                )
        except NotFoundError:
            return None

    def list(self) -> tuple[StoredWeights, ...]:
        """Every set of weights in the bucket, complete or not, by prefix.

        Raises:
            NotFoundError: there is no such bucket.
        """
        with self._translated():
            sets: dict[str, dict[str, Blob]] = {}
            prefix = self._existing.prefix if self._existing is not None else ""
            below = f"{prefix}/" if prefix else ""
            for blob in self._bucket.list_blobs(prefix=f"{below}models/", timeout=TIMEOUT):
                parts = blob.name.removeprefix(below).split("/", 3)
                if len(parts) == 4:
                    sets.setdefault(below + "/".join(parts[:3]), {})[parts[3]] = blob
            found = (self._stored(*each) for each in sorted(sets.items()))
            return tuple(each for each in found if each is not None)

    def stored(self, prefix: str) -> StoredWeights | None:
        """The set of weights at ``prefix``, complete or not; None for none.

        Raises:
            NotFoundError: there is no such bucket.
        """
        with self._translated():
            objects = self._objects(prefix)
            return self._stored(prefix, objects) if objects else None

    def contents(self, prefix: str) -> SetObjects:
        """The objects at ``prefix``, as they are now.

        Raises:
            NotFoundError: there is no such bucket.
        """
        with self._translated():
            objects = self._objects(prefix)
            found = self._read(objects.get(MANIFEST_NAME))
        return SetObjects(self._bucket, prefix, objects, found, self._existing is not None)

    def verify(self, prefix: str, needs: ServerNeeds | None = None) -> WeightsCheck:
        """Compare what is at ``prefix`` with its manifest, by size and by the checksum that
        Cloud Storage keeps; the index alone is downloaded. What the manifest does not name
        is no damage: no host reads it.

        Args:
            prefix: where the weights are, without a slash at the end.
            needs: what the server reads, which the manifest has to name; by default only data
                formats are looked for.

        Raises:
            NotFoundError: there is no manifest, or no such bucket.
        """
        with self._translated():
            present = self._objects(prefix)
            found = self._read(present.get(MANIFEST_NAME))
        if self._existing is not None:
            present = pushed_objects(present, found)
        present.pop(MANIFEST_NAME, None)
        objects = dict(present)
        if found is None or found.manifest is None:
            raise NotFoundError(
                f"gs://{self._name}/{prefix} has no usable {MANIFEST_NAME}",
                hint=Advice("Run: {weights_push}"),
            )
        problems = []
        patterns = allowed_patterns(needs.extra_files if needs is not None else ())
        for file in found.manifest.files:
            blob = present.pop(file.path, None)
            if not fits(file.path, patterns):
                problems.append(WeightsProblem(file.path, "no data format"))
            elif blob is None:
                problems.append(WeightsProblem(file.path, "missing"))
            elif blob.size != file.size:
                problems.append(WeightsProblem(file.path, "size"))
            elif blob.crc32c != file.crc32c:
                problems.append(WeightsProblem(file.path, "checksum"))
        if needs is not None:
            sizes = {file.path: file.size for file in found.manifest.files}
            index, indexed = index_of(sizes, needs), None
            if index and index not in {each.path for each in problems}:
                try:
                    indexed = self._indexed(objects[index])
                except WeightsError as error:
                    problems.append(WeightsProblem(index, error.message))
            problems += model_files(sizes, needs, indexed=indexed).problems
        return WeightsCheck(found.sha256, found.manifest, tuple(problems), tuple(sorted(present)))

    @property
    def _name(self) -> str:
        return str(self._bucket.name)

    def _translated(self) -> AbstractContextManager[None]:
        return translated(self._bucket)

    def _objects(self, prefix: str) -> dict[str, Blob]:
        return objects_below(self._bucket, prefix)

    def _stored(self, prefix: str, objects: Mapping[str, Blob]) -> StoredWeights | None:
        """The set of weights that the ``objects`` below ``prefix`` are; None for none."""
        found = self._read(objects.get(MANIFEST_NAME))
        if self._existing is not None:
            objects = pushed_objects(objects, found)
            if not objects:
                return None
        manifest = None if found is None else found.manifest
        files = {name: blob for name, blob in objects.items() if name != MANIFEST_NAME}
        beside = {} if manifest is None else objects_beside(files, manifest)
        written = objects.get(MANIFEST_NAME)
        return StoredWeights(
            prefix,
            manifest,
            len(files),
            _size(files),
            source_of_set(written),
            beside=len(beside),
            beside_bytes=_size(beside),
            used=None if written is None else last_used(written.metadata),
            written=max((blob.time_created for blob in objects.values()), default=None),
            wrong=0
            if manifest is None
            else sum(not same_content(file, files.get(file.path)) for file in manifest.files),
        )

    def _read(self, blob: Blob | None) -> FoundManifest | None:
        """The manifest in ``blob``. Anyone who may write to the bucket decides what it holds, so no
        more is read than a manifest may have, and nothing is unpacked."""
        if blob is None:
            return None
        if (blob.size or 0) > MAX_MANIFEST_BYTES:
            return FoundManifest("", None)
        text = self._text(blob)
        return FoundManifest(manifest_sha256(text), read_manifest(text))

    def _indexed(self, blob: Blob) -> set[str] | None:
        """The files that the index in ``blob`` names; None if it is empty."""
        if (blob.size or 0) > MAX_INDEX_BYTES:
            raise WeightsError(f"larger than the {MAX_INDEX_BYTES} bytes that are read")
        with self._translated():
            return indexed_files(self._text(blob), "the index") if blob.size else None

    def _text(self, blob: Blob) -> bytes:
        exact = self._bucket.blob(blob.name, generation=blob.generation)
        return bytes(exact.download_as_bytes(raw_download=True, timeout=TIMEOUT))


def weights_bucket(
    name: str,
    *,
    project: str,
    environ: Mapping[str, str],
    settling: Settling | None = None,
    timing: Timing | None = None,
    existing: ExistingBucket | None = None,
) -> WeightsBucket:
    """The bucket called ``name``, as :func:`~tpuflex.google.storage_client.storage_bucket` has it.
    Others may use one that is ``existing``, too.

    Raises:
        AccessError: the credentials do not belong to the endpoints.
    """
    return WeightsBucket(
        storage_bucket(name, project=project, environ=environ, settling=settling, timing=timing),
        existing,
    )


def _size(objects: Mapping[str, Blob]) -> int:
    return sum(blob.size or 0 for blob in objects.values())
