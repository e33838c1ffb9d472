"""The directory of a model of the Hub: fetched once, and resolved to a commit for all to see."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.errors import WeightsError
from tpuflex.gcp.weights_files import Progress
from tpuflex.only_maker import only_maker
from tpuflex.operate.fetched_directory import fetch_directory
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.snapshot import SOURCE_KEY, HubFile, HubSource, Snapshot, directory_name
from tpuflex.operate.resumed_download import Download
from tpuflex.operate.serving_files import left_out_text

if TYPE_CHECKING:
    from hashlib import _Hash

Say = Callable[[str], None]


class HubModels:
    """Models of the Hub, kept in a directory of this machine.

    Args:
        models: where they are kept.
        client: gives a client of the Hub, when one is needed.
        extra_files: shell patterns of files to take beside the data formats.
    """

    def __init__(
        self, models: Path, client: Callable[[], HubClient], extra_files: tuple[str, ...] = ()
    ) -> None:
        self._models = models
        self._client = client
        self._extra = extra_files

    def check(self, source: HubSource) -> None:
        """Check that ``source`` is there and may be read, unless it is here already.

        Raises:
            NotFoundError, AccessError, WeightsError, ApiError: as :meth:`HubClient.snapshot`.
        """
        if self._kept(source) is None:
            self._client().snapshot(source, self._extra)

    def directory(
        self, source: HubSource, say: Say, transfer: Callable[[], AbstractContextManager[Progress]]
    ) -> Path:
        """The directory that holds ``source``, fetched if necessary.

        Args:
            source: the model.
            say: called with one line per step.
            transfer: shows the progress of a transfer.

        Raises:
            NotFoundError, AccessError, WeightsError, ApiError: as :meth:`HubClient.snapshot` and
                :func:`~tpuflex.operate.hub.fetch.download`.
        """
        kept = self._kept(source)
        if kept is not None:
            return kept
        client = self._client()
        snapshot = client.snapshot(source, self._extra)
        if not source.pinned:
            say(
                f"hub: {source.revision or 'the default branch'} of {source.repository} is commit"
                f" {snapshot.commit}. To stay with it, write {SOURCE_KEY}: {snapshot.source}"
            )
        directory = self._place(snapshot.repository, snapshot.commit)
        with only_maker(directory):
            if not directory.is_dir():
                say(_announced(snapshot, directory))
                with transfer() as progress:
                    download(client, snapshot, directory, progress)
        return directory

    def _place(self, repository: str, commit: str) -> Path:
        return self._models / directory_name(repository, commit, self._extra)

    def _kept(self, source: HubSource) -> Path | None:
        if not source.pinned:
            return None
        directory = self._place(source.repository, source.revision)
        return directory if directory.is_dir() else None


def _announced(snapshot: Snapshot, directory: Path) -> str:
    size = snapshot.total_bytes / 1e6
    text = f"hub: {len(snapshot.files)} files, {size:.0f} MB, into {directory}"
    return text + left_out_text(snapshot.left_out)


def download(client: HubClient, snapshot: Snapshot, directory: Path, progress: Progress) -> None:
    """Fetch ``snapshot`` into ``directory``, or go on with it.

    A file without the ending ``.part`` has the sum that the Hub itself keeps of it
    (:mod:`tpuflex.operate.resumed_download`).

    Args:
        client: the Hub.
        snapshot: what to fetch.
        directory: has this name only once everything is in it.
        progress: called with the bytes that are there and the total, by one thread at a time.

    Raises:
        WeightsError: there is not enough room, or a file is not what the Hub lists.
        NotFoundError, AccessError, ApiError: the Hub refused, or cannot be reached.
    """

    def downloads(unfinished: Path) -> list[Download]:
        return [_download(client, snapshot, file, unfinished) for file in snapshot.files]

    fetch_directory(directory, snapshot.source, snapshot.total_bytes, downloads, progress)


def _download(client: HubClient, snapshot: Snapshot, file: HubFile, partial: Path) -> Download:
    """``file`` on its way into the directory ``partial``."""
    right = file.sha256 or file.git_id

    def failed(error: Exception, failures: int) -> None:
        if not client.pause(error, failures):
            raise client.refusal(error, snapshot, file) from error

    wrong = WeightsError(
        f"{snapshot.source}, {file.path}: what came is not what the Hub lists ({right},"
        f" {file.size} bytes)",
        hint="Run it again: the file is fetched anew. If it happens again, something between here"
        " and the Hub alters files: look at HF_ENDPOINT and at proxies.",
    )
    return Download(
        place=partial / file.path,
        size=file.size,
        digest=lambda: _digest(file),
        sum=right,
        blocks=lambda start: client.blocks(snapshot, file, start),
        failed=failed,
        wrong=wrong,
    )


def _digest(file: HubFile) -> _Hash:
    """What computes the sum that the Hub keeps of ``file``: SHA-256 in LFS, else Git's object
    id."""
    return hashlib.sha256() if file.sha256 else git_object_id(file.size)


def git_object_id(size: int) -> _Hash:
    """What computes Git's object id of a file of ``size`` bytes, as these go by
    (https://git-scm.com/book/en/v2/Git-Internals-Git-Objects)."""
    return hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
