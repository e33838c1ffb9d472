"""One maker at a time of a directory with a model."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tpuflex.trusted_files import own_directory


@contextmanager
def only_maker(directory: Path) -> Iterator[None]:
    """Hold a lock beside ``directory``, so that concurrent runs make it only once."""
    own_directory(directory.parent)
    with directory.with_name(f"{directory.name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
