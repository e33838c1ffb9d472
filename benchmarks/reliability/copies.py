"""Copies of a stack and its cloud, which restore the starting point of each case."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedded_cloud.store import Store

#: The collection with the embedded cloud's own settings (clock, rules) rather than resources.
_OWN = "_emulator"


@dataclass(frozen=True, slots=True)
class Copy:
    """One copy.

    Attributes:
        epoch: the cloud's time when the copy was taken.
        documents: (collection, key, document) from the cloud's memory.
        folder: copies of the backend and of the cloud's objects.
    """

    epoch: float
    documents: tuple[tuple[str, str, dict[str, Any]], ...]
    folder: Path


def take(emulator: Path, backend: Path, folder: Path, epoch: float) -> Copy:
    """Copy the cloud with state directory ``emulator``, and ``backend``, into ``folder``."""
    shutil.rmtree(folder, ignore_errors=True)
    for source, name in _parts(emulator, backend):
        if source.is_dir():
            shutil.copytree(source, folder / name)
    store = Store(emulator / "store.sqlite")
    documents = tuple(
        (collection, key, value)
        for collection in store.collections()
        if collection != _OWN
        for key, value in store.list(collection)
    )
    store.close()
    return Copy(epoch, documents, folder)


def put_back(copy: Copy, emulator: Path, backend: Path) -> None:
    """Restore ``copy`` into a cloud and a backend that have been reset."""
    for target, name in _parts(emulator, backend):
        if (copy.folder / name).is_dir():
            shutil.copytree(copy.folder / name, target, dirs_exist_ok=True)
    store = Store(emulator / "store.sqlite")
    for collection, key, value in copy.documents:
        store.put(collection, key, value)
    store.close()


def _parts(emulator: Path, backend: Path) -> tuple[tuple[Path, str], ...]:
    return (backend, "backend"), (emulator / "objects", "objects")
