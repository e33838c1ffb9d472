"""The files of a checkpoint, read in parts from wherever they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tpuflex.errors import WeightsError
from tpuflex.weights.checkpoint_directory import directory_sizes, open_file


class CheckpointFiles(Protocol):
    """The files of one checkpoint, wherever they are."""

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``."""


class DirectoryFiles:
    """The files below a directory.

    Args:
        directory: the directory.
        only: the one file that is asked about; by default all are.
    """

    def __init__(self, directory: Path, only: str = "") -> None:
        self._directory = directory
        self._only = only

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name.

        Raises:
            WeightsError: the directory cannot be read, or the one file is a link to elsewhere or
                no regular file.
        """
        if not self._only:
            return directory_sizes(self._directory)
        try:
            with open_file(self._directory, self._only) as file:
                return {self._only: os.fstat(file.fileno()).st_size}
        except OSError as error:
            raise WeightsError(f"{error.filename} cannot be read: {error.strerror}") from error

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``.

        Raises:
            WeightsError: the file cannot be read, or is a link to elsewhere or no regular file.
        """
        try:
            with open_file(self._directory, name) as file:
                file.seek(start)
                return file.read(length)
        except OSError as error:
            path = self._directory / name
            raise WeightsError(f"{path} cannot be read: {error.strerror}") from error
