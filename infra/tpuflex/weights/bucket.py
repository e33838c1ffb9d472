"""Weights in their bucket: push, list, verify.

The manifest is written last and deleted first, so its presence says that everything it names is
there. What is in the bucket already with the right size and checksum is not sent again, so an
interrupted push resumes where it stopped.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING

from tpuflex.boot.manifest import (
    MANIFEST_NAME,
    MAX_MANIFEST_BYTES,
    Manifest,
    WeightsFile,
    manifest_sha256,
    read_manifest,
)
from tpuflex.catalog.weight_formats import allowed_patterns, fits
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
from tpuflex.weights.checkpoint_directory import local_manifest
from tpuflex.weights.set_writing import Progress, SetWriting, Tally, note_source
from tpuflex.weights.storage_errors import translated
from tpuflex.weights.stored_set import (
    MARK,
    TIMEOUT,
    FoundManifest,
    PushReport,
    SetObjects,
    StoredWeights,
    WeightsCheck,
    beside_of,
    last_used,
    objects_below,
    of_a_push,
    require_replaceable,
    same,
    source_of_set,
)

if TYPE_CHECKING:
    from google.cloud.storage import Blob, Bucket  # type: ignore[import-untyped]

    from tpuflex.google.settling import Settling
    from tpuflex.google.timing import Timing
    from tpuflex.settings.bucket import ExistingBucket
    from tpuflex.weights.checkpoint_directory import LocalModel
    from tpuflex.weights.remote_model import RemoteFile, RemoteModel

#: Files sent at a time.
PARALLELISM = 8

Check = Callable[[Manifest, FoundManifest | None], None]
Differs = Callable[[FoundManifest], None]


def _unchecked(_wanted: Manifest, _found: FoundManifest | None) -> None:
    return None


class WeightsBucket:
    """The sets of weights in one bucket.

    Args:
        bucket: the bucket; made by :func:`weights_bucket` outside of tests.
        existing: the bucket and the prefix that are the user's own, which others may use, too.
        now: a clock that never jumps, in seconds.
    """

    def __init__(
        self,
        bucket: Bucket,
        existing: ExistingBucket | None = None,
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._bucket = bucket
        self._existing = existing
        self._now = now

    def push(
        self,
        origin: LocalModel,
        prefix: str,
        *,
        model: str,
        revision: str,
        progress: Progress,
        check: Check = _unchecked,
        again: bool = False,
        used: dt.date | None = None,
        parallelism: int = PARALLELISM,
    ) -> PushReport:
        """Upload ``origin`` to ``prefix``, then write its manifest.

        Args:
            origin: the model in a directory.
            prefix: where it goes, without a slash at the end.
            model: name under which the model is served.
            revision: names this set of weights.
            progress: called with the bytes that are there and the total; from several threads,
                one at a time.
            check: called with the manifest to write and the one that is there, before anything is
                sent; raises what forbids it.
            again: send every file, whatever the bucket holds: who may write there can give altered
                content the CRC32C of the right one.
            used: today, kept with the manifest as the day of their last use.
            parallelism: files sent at a time.

        Raises:
            WeightsError: a file cannot be read, or is a link out of the directory.
            NotFoundError: there is no such bucket.
            AccessError: the caller may not write to it.
            ConflictError: another push to the same prefix is under way; or something of others
                would be replaced in a bucket that is theirs, too.
        """
        began = self._now()
        with ThreadPoolExecutor(max_workers=parallelism) as pool:
            wanted = local_manifest(origin, pool, model=model, revision=revision)
            with self._translated():
                present = self._objects(prefix)
                old = self._read(present.get(MANIFEST_NAME))
                check(wanted, old)
                kept = {} if again else present
                send = [file for file in wanted.files if not same(file, kept.get(file.path))]
                if self._existing is not None:
                    place = f"gs://{self._name}/{prefix}"
                    require_replaceable(place, (file.path for file in send), present, old)
                tally = Tally(wanted.total_bytes, progress)
                tally.add(wanted.total_bytes - sum(file.size for file in send))
                if send or old is None or old.sha256 != wanted.sha256:
                    writing = SetWriting(self._bucket, prefix, self._mark)
                    writing.begin(present, wanted)
                    send_one = partial(writing.send, origin.directory, tally.add)
                    writing.bring(pool, send, present, send_one)
                    writing.finish(wanted, "", used)
        return _report(wanted, {file.path for file in send}, self._now() - began)

    def push_remote(
        self,
        remote: RemoteModel,
        prefix: str,
        *,
        model: str,
        revision: str,
        progress: Progress,
        check: Check = _unchecked,
        differs: Differs = lambda _found: None,
        again: bool = False,
        used: dt.date | None = None,
    ) -> PushReport:
        """The same of a model elsewhere, with two of its files at a time on this machine: each
        comes, is checked and summed, sent if the bucket has not the same, and goes again.

        Args:
            remote: the model; its source is kept as metadata of the manifest.
            prefix: where it goes, without a slash at the end.
            model: name under which the model is served.
            revision: names this set of weights.
            progress: called with the bytes that have come, or are there, and the total; from
                several threads, one at a time.
            check: called with the manifest to write and the one that is there, before anything in
                the place of a set is sent, and before the manifest is written; raises what forbids
                it. Where a set is there, all files come once for that, unless their sums are known.
            differs: called with the set that is there if the list alone shows that it is another
                one; raises what forbids to replace it.
            again: send every file, whatever the bucket holds.
            used: today, kept there as the day of their last use.

        Raises:
            WeightsError: a file is not what was listed, or there is no room for two.
            NotFoundError, AccessError, ConflictError: as :meth:`push`.
            TpuflexError: the model cannot be fetched.
        """
        began = self._now()
        with self._translated():
            present = self._objects(prefix)
            old = self._read(present.get(MANIFEST_NAME))
            there = None if old is None else old.manifest
            if old is not None and there is not None and not remote.lists(there):
                differs(old)
            if old is not None:
                # A set that is there is only taken apart for one that may take its place.
                summing = Tally(remote.total_bytes, progress)
                check(remote.manifest(summing.add, model=model, revision=revision), old)
            writing = SetWriting(self._bucket, prefix, self._mark)
            tally = Tally(remote.total_bytes, progress)
            beginning, begun = Lock(), Event()

            def begin() -> None:
                with beginning:
                    if not begun.is_set():
                        writing.begin(present, None)
                        begun.set()

            def bring(file: RemoteFile) -> tuple[WeightsFile, bool]:
                kept = None if again else present.get(file.path)
                known_sums = remote.sums(file)
                if known_sums is not None and same(known_sums, kept):
                    tally.add(file.size)
                    return known_sums, False
                with remote.here(file, tally.add) as sums:
                    if same(sums, kept):
                        return sums, False
                    if self._existing is not None:
                        place = f"gs://{self._name}/{prefix}"
                        require_replaceable(place, (file.path,), present, old)
                    begin()
                    old_object = present.get(file.path)
                    writing.send(remote.directory, lambda _: remote.go_on(), sums, old_object)
                    return sums, True

            results = remote.each(bring, lambda: tally.add(0))
            files, sent = [file for file, _ in results], {file.path for file, new in results if new}
            wanted = remote.of(files, model=model, revision=revision)
            check(wanted, old)
            manifest = present.get(MANIFEST_NAME)
            if sent or manifest is None or old is None or old.sha256 != wanted.sha256:
                begin()
                writing.finish(wanted, remote.source, used)
            elif remote.source != source_of_set(manifest):
                note_source(manifest, remote.source)  # others may serve it: it stays where it is
        return _report(wanted, sent, self._now() - began)

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
            present = of_a_push(present, found)
        present.pop(MANIFEST_NAME, None)
        objects = dict(present)
        if found is None or found.manifest is None:
            raise NotFoundError(
                f"gs://{self._name}/{prefix} has no usable {MANIFEST_NAME}",
                hint="Run: tpuflex weights push",
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
    def _mark(self) -> Mapping[str, str]:
        """Metadata of what is written."""
        return {} if self._existing is None else MARK

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
            objects = of_a_push(objects, found)
            if not objects:
                return None
        manifest = None if found is None else found.manifest
        files = {name: blob for name, blob in objects.items() if name != MANIFEST_NAME}
        beside = {} if manifest is None else beside_of(files, manifest)
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
            else sum(not same(file, files.get(file.path)) for file in manifest.files),
        )

    def _read(self, blob: Blob | None) -> FoundManifest | None:
        """The manifest in ``blob``. Whoever may write to the bucket decides what it holds, so no
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


def _report(wanted: Manifest, sent: Collection[str], seconds: float) -> PushReport:
    return PushReport(
        manifest=wanted,
        sent=tuple(file.path for file in wanted.files if file.path in sent),
        kept=tuple(file.path for file in wanted.files if file.path not in sent),
        bytes_sent=sum(file.size for file in wanted.files if file.path in sent),
        seconds=seconds,
    )


def _size(objects: Mapping[str, Blob]) -> int:
    return sum(blob.size or 0 for blob in objects.values())
