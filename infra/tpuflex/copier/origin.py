"""Where the files of a copy come from: two implementations, for the Hub (:mod:`tpuflex.copier.hub`)
and for a bucket (:mod:`tpuflex.copier.bucket`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from tpuflex.copier.errors import CopyError
from tpuflex.copier.job import JobFile


class OriginFiles(Protocol):
    """The files of one job."""

    def blocks(self, file: JobFile) -> Iterator[bytes]:
        """The content of ``file``, in blocks.

        Raises:
            CopyError: it does not come.
        """

    def wrong(self, file: JobFile) -> CopyError:
        """What is raised of a content of ``file`` that is another one than was listed."""
