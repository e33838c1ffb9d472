"""Fetch a model of the Hub into a directory, which gets its final name once all sums are right.

A file that is under way ends in ``.part``: another run goes on with it. A file without that
ending has the sum that the Hub itself keeps of it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from tpuflex.errors import InterruptedByUser, WeightsError
from tpuflex.gcp.weights_files import Progress, Tally
from tpuflex.operate.hub.snapshot import HubFile, Snapshot

if TYPE_CHECKING:
    from hashlib import _Hash

    from tpuflex.operate.hub.client import HubClient

#: Hidden, so that it is never pushed: what the directory was fetched from.
SOURCE_FILE = ".tpuflex-source"
#: Files fetched at a time: one stream rarely fills a line.
PARALLELISM = 4
_PART = ".part"
_BLOCK = 4 * 1024 * 1024


def source_of(directory: Path) -> str:
    """The source that ``directory`` was fetched from, with its commit; empty if from none."""
    try:
        return (directory / SOURCE_FILE).read_text("utf-8").strip()[:300]
    except (OSError, UnicodeDecodeError):
        return ""


def download(client: HubClient, snapshot: Snapshot, directory: Path, progress: Progress) -> None:
    """Fetch ``snapshot`` into ``directory``, or go on with it.

    Args:
        client: the Hub.
        snapshot: what to fetch.
        directory: has this name only once everything is in it.
        progress: called with the bytes that are there and the total, by one thread at a time.

    Raises:
        WeightsError: there is not enough room, or a file is not what the Hub lists.
        NotFoundError, AccessError, ApiError: the Hub refused, or cannot be reached.
    """
    partial = directory.with_name(f"{directory.name}.partial")
    partial.mkdir(mode=0o700, exist_ok=True)
    _require_room(snapshot, partial)
    stop = Event()
    tally = Tally(snapshot.total_bytes, progress)
    with ThreadPoolExecutor(PARALLELISM) as pool:
        jobs = [
            pool.submit(_File(client, snapshot, file, partial, tally.add, stop).fetch)
            for file in snapshot.files
        ]
        try:
            for job in wait(jobs, return_when=FIRST_EXCEPTION).done:
                job.result()
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    (partial / SOURCE_FILE).write_text(f"{snapshot.source}\n", encoding="utf-8")
    partial.rename(directory)


def _require_room(snapshot: Snapshot, partial: Path) -> None:
    present = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
    needed, free = snapshot.total_bytes - present, shutil.disk_usage(partial).free
    if needed > free:
        raise WeightsError(
            f"{snapshot.source} needs {needed / 1e9:.1f} GB in {partial.parent}, and"
            f" {free / 1e9:.1f} GB are free there",
            hint="Make room, or set TPUFLEX_HOME to a directory on a larger disk.",
        )


class _File:
    """One file on its way."""

    def __init__(
        self,
        client: HubClient,
        snapshot: Snapshot,
        file: HubFile,
        partial: Path,
        arrived: Callable[[int], None],
        stop: Event,
    ) -> None:
        self._client = client
        self._snapshot = snapshot
        self._file = file
        self._place = partial / file.path
        self._part = self._place.with_name(f"{self._place.name}{_PART}")
        self._arrived = arrived
        self._stop = stop

    def fetch(self) -> None:
        """Fetch what is missing of the file, and give it its name if its sum is right."""
        if self._place.is_file():
            self._arrived(self._file.size)
            return
        self._place.parent.mkdir(parents=True, exist_ok=True)
        digest = _digest(self._file)
        with self._part.open("a+b") as part:
            part.seek(0)
            while block := part.read(_BLOCK):
                self._take(digest, block)
            self._receive(digest, part.write, part.tell)
            part.flush()
            os.fsync(part.fileno())
        right = self._file.sha256 or self._file.git_id
        if self._part.stat().st_size != self._file.size or digest.hexdigest() != right:
            self._part.unlink()
            raise WeightsError(
                f"{self._snapshot.source}, {self._file.path}: what came is not what the Hub lists"
                f" ({right}, {self._file.size} bytes)",
                hint="Run it again: the file is fetched anew. If it happens again, something"
                " between here and the Hub alters files: look at HF_ENDPOINT and at proxies.",
            )
        self._part.rename(self._place)

    def _receive(
        self, digest: _Hash, write: Callable[[bytes], object], tell: Callable[[], int]
    ) -> None:
        attempt = 0
        while tell() < self._file.size:
            before = tell()
            try:
                with self._client.blocks(self._snapshot, self._file, before) as blocks:
                    for block in blocks:
                        self._take(digest, block)
                        write(block)
                        if tell() > self._file.size:
                            return
                if tell() == before:
                    return
            except (WeightsError, InterruptedByUser):
                raise
            except Exception as error:
                # What brought something was no failure: a line may break often in 60 GB.
                attempt = 1 if tell() > before else attempt + 1
                if not self._client.pause(error, attempt):
                    raise self._client.refusal(error, self._snapshot, self._file) from error

    def _take(self, digest: _Hash, block: bytes) -> None:
        if self._stop.is_set():
            raise InterruptedByUser("Stopped while the weights were being fetched.")
        digest.update(block)
        self._arrived(len(block))


def _digest(file: HubFile) -> _Hash:
    """What computes the sum that the Hub keeps of ``file``: SHA-256 in LFS, else Git's object id
    (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects)."""
    if file.sha256:
        return hashlib.sha256()
    return hashlib.sha1(b"blob %d\0" % file.size, usedforsecurity=False)
