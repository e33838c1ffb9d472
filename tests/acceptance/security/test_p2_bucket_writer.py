"""P2: whoever may write to the bucket cannot change what is served."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.security.bucket_writer import (
    FILES,
    Change,
    changed_parts,
    changes,
    pushed,
    served,
)


@pytest.mark.timeout(600)
def test_no_change_by_a_bucket_writer_is_served(tmp_path: Path) -> None:
    """S7: of 200 single-byte and file-name changes to manifest and files, also with a manifest
    that agrees with them, the host's own functions accept none."""
    every = list(changes(seed=20261122))
    assert len(every) == 200
    assert all(change.objects != pushed() for change in every)

    assert served(every, tmp_path) == []


def test_what_was_pushed_is_served(tmp_path: Path) -> None:
    """The same functions accept what was pushed: they do not refuse everything."""
    untouched = [Change("nothing", pushed()), *(Change("nothing", pushed(), f) for f in FILES)]

    said = [line.split()[0] for line in served(untouched, tmp_path)]

    assert said.count("accepted") == 1
    assert said.count("served") == len(FILES)


def test_no_changed_part_is_served(tmp_path: Path) -> None:
    """A shard is refused whichever of its parts is flipped, cut, left out, doubled, emptied or
    exchanged for its neighbour, though every other part is right."""
    every = list(changed_parts())
    assert len(every) == 6 * 7

    assert served(every, tmp_path) == []
