"""The copy: what is there and right is kept, the rest is sent, and the manifest is written last.

A file is right if its content has the Hub's own sum. What the bucket holds is read for that, within
the region: a CRC32C, which Cloud Storage keeps, can be forged by whoever may write there.

Of the files of another bucket a CRC32C is all that is listed. It goes with what is sent, and Cloud
Storage compares it before there is an object: Python alone computes none that is fast enough. What
is there already is right only if its content is that of the source, which is then read as well.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock
from typing import Any

from tpuflex.boot.manifest_document import (
    MANIFEST_NAME,
    PART_BYTES,
    SOURCE_METADATA,
    FileEntry,
    FileSums,
    document_sha256,
    manifest_document,
)
from tpuflex.copier.errors import CopyError
from tpuflex.copier.http import RefusedError
from tpuflex.copier.job import Job, JobFile, git_object_id
from tpuflex.copier.origin import OriginFiles
from tpuflex.copier.storage import CHUNK_BYTES, Objects
from tpuflex.copier.stored import Stored

#: Files under way at a time: one stream rarely fills a line.
PARALLELISM = 8


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did.

    Attributes:
        manifest_sha256: of the manifest that is in the bucket now.
        kept: places in the job's list of the files that were there already.
    """

    manifest_sha256: str
    kept: tuple[int, ...]


class Copy:
    """One copy.

    Args:
        job: what is to be copied.
        origin: where from.
        objects: where to.
        part_bytes: bytes of a part of a file that has a sum of its own.
    """

    def __init__(
        self, job: Job, origin: OriginFiles, objects: Objects, *, part_bytes: int = PART_BYTES
    ) -> None:
        self._job = job
        self._origin = origin
        self._objects = objects
        self._part_bytes = part_bytes
        self._stop = Event()
        self._lock = Lock()
        self._done = 0

    @property
    def done_bytes(self) -> int:
        """Bytes that were checked or sent."""
        return self._done

    def run(self) -> Copied:
        """Do it.

        Raises:
            CopyError, UnreachableError, RefusedError: it cannot go on; what was sent stays, and
                another run goes on with it.
        """
        files = self._job.files
        seen = dict(zip(files, self._each(self._look, files), strict=True))
        right = {file: entry for file, (_, entry) in seen.items() if entry is not None}
        place = self._name(MANIFEST_NAME)
        manifest = self._objects.find(place)
        old = b"" if manifest is None else b"".join(self._content(place, manifest))
        if len(right) == len(files) and manifest is not None:
            document = self._document(right, old)
            told = manifest.metadata.get(SOURCE_METADATA) == self._job.source
            if told and self._marked(manifest) and document.encode() == old:
                return self._copied(document, right)
        rest = [file for file in files if file not in right]
        if self._job.create_only:
            self._require_free(manifest, [file.path for file in rest if seen[file][0] is not None])
        elif manifest is not None:
            self._objects.delete(place, manifest)
        sent = self._each(lambda file: self._transfer(file, seen[file][0]), rest)
        document = self._document({**right, **dict(zip(rest, sent, strict=True))}, old)
        self._objects.put(
            place,
            document.encode(),
            None,  # ours was deleted before: one that is there now was written by somebody else
            content_type="application/json",
            metadata={**self._job.mark, SOURCE_METADATA: self._job.source},
        )
        return self._copied(document, right)

    def _require_free(self, manifest: Stored | None, wrong: list[str]) -> None:
        """Check that nothing has to be replaced.

        Raises:
            CopyError: something has.
        """
        if found := [*wrong, *([] if manifest is None else [MANIFEST_NAME])]:
            raise CopyError(
                "in-the-way", f"{found[0]} is there with another content, or no push has written it"
            )

    def _each(self, work: Callable[[JobFile], Any], files: Iterable[JobFile]) -> list[Any]:
        """``work`` on each of ``files``, several at a time; the first failure stops all."""
        with ThreadPoolExecutor(PARALLELISM) as pool:
            jobs = [pool.submit(work, file) for file in files]
            try:
                for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
                    job.result()
                return [job.result() for job in jobs]
            except BaseException:
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _look(self, file: JobFile) -> tuple[Stored | None, FileEntry | None]:
        """What is in the bucket in the place of ``file``, and its entry if it is right."""
        name = self._name(file.path)
        stored = self._objects.find(name)
        if stored is None or stored.size != file.size or self._job.again:
            return stored, None
        if file.crc32c not in ("", stored.crc32c) or not self._marked(stored):
            return stored, None
        sums = self._read(file, self._content(name, stored))
        if not sums.right or not self._as_listed(file, sums):
            return stored, None
        self._advance(file.size)
        return stored, sums.entry(stored)

    def _as_listed(self, file: JobFile, sums: _Sums) -> bool:
        """Whether what has these sums is what the origin has, where that lists a CRC32C only."""
        if not file.crc32c:
            return True
        return self._read(file, self._origin.blocks(file)).sha256 == sums.sha256

    def _read(self, file: JobFile, blocks: Iterable[bytes]) -> _Sums:
        sums = _Sums(file, self._part_bytes)
        for block in blocks:
            self._alive()
            sums.update(block)
        return sums

    def _transfer(self, file: JobFile, old: Stored | None) -> FileEntry:
        name, sums = self._name(file.path), _Sums(file, self._part_bytes)
        small = file.size <= CHUNK_BYTES
        about: dict[str, Any] = {"metadata": self._job.mark, "crc32c": file.crc32c}
        upload = None if small else self._objects.upload(name, file.size, old, **about)
        held, start = bytearray(), 0
        for block in self._origin.blocks(file):
            self._alive()
            sums.update(block)
            held += block
            # The last chunk is held until the sum is known: what is wrong never becomes an object.
            if upload is not None and len(held) > CHUNK_BYTES:
                upload.write(bytes(held[:CHUNK_BYTES]), start)
                del held[:CHUNK_BYTES]
                start += CHUNK_BYTES
                self._advance(CHUNK_BYTES)
        if not sums.right:
            raise self._origin.wrong(file)
        with self._compared(file):
            if upload is None:
                kind = "application/octet-stream"
                stored = self._objects.put(name, bytes(held), old, content_type=kind, **about)
            else:
                upload.write(bytes(held), start)
                stored = upload.finish()
        self._advance(len(held))
        if (stored.size, stored.md5) != (file.size, sums.md5):
            raise CopyError("conflict", f"{file.path}: the bucket has another content")
        if file.crc32c not in ("", stored.crc32c):
            raise self._origin.wrong(file)
        return sums.entry(stored)

    @contextmanager
    def _compared(self, file: JobFile) -> Iterator[None]:
        """Cloud Storage answers 400 to the end of an upload that has another CRC32C than was said
        (https://cloud.google.com/storage/docs/data-validation#server-side_validation)."""
        try:
            yield
        except RefusedError as error:
            if file.crc32c and error.status == 400:
                raise self._origin.wrong(file) from error
            raise

    def _document(self, entries: Mapping[JobFile, FileEntry], old: bytes) -> str:
        """The manifest of ``entries``: in schema 1, if that is how these weights are known.

        Raises:
            CopyError: it is not the pinned one.
        """
        job, ordered = self._job, sorted(entries.values(), key=lambda entry: entry.path)
        write = partial(
            manifest_document,
            model=job.model,
            revision=job.revision,
            total_bytes=sum(entry.size for entry in ordered),
        )
        bare = [FileEntry(each.path, each.size, each.crc32c, each.sha256) for each in ordered]
        document = write(bare, schema=1, part_bytes=0)
        known = {*job.known, hashlib.sha256(old).hexdigest()}
        if document_sha256(document) not in known:
            document = write(ordered, schema=2, part_bytes=self._part_bytes)
        if job.pinned not in ("", found := document_sha256(document)):
            raise CopyError("not-pinned", f"the manifest would have the SHA-256 {found}")
        return document

    def _copied(self, document: str, right: Mapping[JobFile, FileEntry]) -> Copied:
        kept = tuple(place for place, file in enumerate(self._job.files) if file in right)
        return Copied(document_sha256(document), kept)

    def _marked(self, stored: Stored) -> bool:
        return self._job.mark.items() <= stored.metadata.items()

    def _content(self, name: str, stored: Stored) -> Iterator[bytes]:
        return self._objects.blocks(name, stored.generation, stored.size)

    def _name(self, path: str) -> str:
        return f"{self._job.prefix}/{path}"

    def _advance(self, count: int) -> None:
        with self._lock:
            self._done += count

    def _alive(self) -> None:
        if self._stop.is_set():
            raise CopyError("internal", "stopped, because another file failed")


class _Sums:
    """Every sum that is needed of one file, as its bytes go by."""

    def __init__(self, file: JobFile, part_bytes: int) -> None:
        self._file = file
        self._sums = FileSums(part_bytes)
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._git = git_object_id(file.size)

    def update(self, block: bytes) -> None:
        """Take the next bytes."""
        self._sums.update(block)
        self._md5.update(block)
        if self._file.git_id:
            self._git.update(block)

    @property
    def right(self) -> bool:
        """Whether it is what is listed, as far as that can be told here."""
        file = self._file
        if self._sums.size != file.size:
            return False
        if file.sha256:
            return self.sha256 == file.sha256
        if file.git_id:
            return self._git.hexdigest() == file.git_id
        return bool(file.crc32c)  # which Cloud Storage compares; of nothing listed nothing is right

    @property
    def sha256(self) -> str:
        """SHA-256 in hex."""
        return self._sums.sha256

    @property
    def md5(self) -> str:
        """MD5 as Cloud Storage writes it."""
        return base64.b64encode(self._md5.digest()).decode()

    def entry(self, stored: Stored) -> FileEntry:
        """What a manifest says of it. Its CRC32C is Cloud Storage's own, of an object whose content
        was compared by SHA-256 or MD5: without a library, computing it takes longer than the
        copy."""
        sums = self._sums
        return FileEntry(self._file.path, sums.size, stored.crc32c, sums.sha256, sums.parts)
