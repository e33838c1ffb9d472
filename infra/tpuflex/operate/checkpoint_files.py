"""The files of a checkpoint, read in parts from wherever they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from tpuflex.errors import WeightsError
from tpuflex.gcp.checkpoint_directory import open_file

#: Endings of the names of files that are of interest.
_READ = (".json", ".safetensors")


class CheckpointFiles(Protocol):
    """The files of one checkpoint, wherever they are."""

    def sizes(self) -> Mapping[str, int]:
        """Bytes of each file, by its name."""

    def read(self, name: str, start: int, length: int) -> bytes:
        """``length`` bytes (fewer at the end of the file) from ``start`` of the file ``name``."""


class DirectoryFiles:
    """The JSON and safetensors files directly in a directory.

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
            WeightsError: the directory or a file cannot be read, or a file is a link to elsewhere
                or no regular file.
        """
        try:
            if self._only:
                return {self._only: self._size(self._only)}
            names = [path.name for path in self._directory.iterdir()]
            read = [name for name in names if name.endswith(_READ) and not name.startswith(".")]
            return {name: self._size(name) for name in read}
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

    def _size(self, name: str) -> int:
        with open_file(self._directory, name) as file:
            return os.fstat(file.fileno()).st_size
