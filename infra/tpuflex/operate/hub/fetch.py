"""The directory of a model of the Hub: fetched once, and resolved to a commit for all to see."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from tpuflex.gcp.weights_files import Progress
from tpuflex.only_maker import only_maker
from tpuflex.operate.hub.client import HubClient
from tpuflex.operate.hub.download import download
from tpuflex.operate.hub.snapshot import SOURCE_KEY, HubSource, Snapshot, directory_name
from tpuflex.operate.serving_files import left_out_text

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
                :func:`~tpuflex.operate.hub.download.download`.
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
