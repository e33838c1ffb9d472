"""The order of the suite when it runs on several cores."""

from __future__ import annotations

from pathlib import Path

import pytest

#: Files with tests so marked run first, in this order, so that a run does not end on a single
#: worker that is busy with one of them.
SLOW = ("vllm", "engine", "gcloud")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow files first; otherwise, and within a file, the order stays."""
    ranks: dict[Path, int] = {}
    for item in items:
        marks = [SLOW.index(mark.name) for mark in item.iter_markers() if mark.name in SLOW]
        ranks[item.path] = min([*marks, ranks.get(item.path, len(SLOW))])
    items.sort(key=lambda item: ranks[item.path])
