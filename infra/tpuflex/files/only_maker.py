"""One maker at a time of a directory with a model, an image or an engine, or of a file."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuflex.files.trusted import own_directory


@contextmanager
def only_maker(place: Path, waits: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Hold a lock beside ``place``, so that concurrent runs make it only once.

    Args:
        place: what is made.
        waits: called before it waits for another run; may raise, and does not wait then.
    """
    own_directory(place.parent)
    with lock_of(place).open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def lock_of(place: Path) -> Path:
    """The file that is locked while ``place`` is made."""
    return place.with_name(f"{place.name}.lock")
