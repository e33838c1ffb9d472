"""Fetch a model of the Hub into a directory, which gets its final name once all sums are right.

A file without the ending ``.part`` has the sum that the Hub itself keeps of it
(:mod:`tpuflex.operate.resumed_download`).
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

from tpuflex.copier.job import git_object_id
from tpuflex.errors import WeightsError
from tpuflex.gcp.weights_files import Progress
from tpuflex.operate.fetched_directory import fetch_directory
from tpuflex.operate.hub.snapshot import HubFile, Snapshot
from tpuflex.operate.resumed_download import Download

if TYPE_CHECKING:
    from hashlib import _Hash

    from tpuflex.operate.hub.client import HubClient


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
