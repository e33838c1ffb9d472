"""The order of the suite when it runs on several cores, its pace, the examples of its properties,
and a project."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import hypothesis
import pytest

# The same examples in every run, so that a failure tells of the change that is tested. New ones:
# `make test ARGS="--hypothesis-profile explore"`. A busy machine breaks no deadline.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("same")

# What was imported is no garbage, and the collector would go through all of it again and again: a
# seventh of the time of tests in this process.
gc.set_threshold(100_000, 20, 100)

# pytest-xdist tells its workers how wide its terminal is; the output of tests is no terminal's.
os.environ.pop("COLUMNS", None)

ROOT = Path(__file__).parents[1]
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


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with this checkout's dev stack and nothing else."""
    root = tmp_path / "project"
    (root / "stacks").mkdir(parents=True)
    (root / "Pulumi.yaml").write_text("name: tpuflex\nruntime: python\nstackConfigDir: stacks\n")
    stack = (ROOT / "stacks" / "Pulumi.dev.yaml").read_bytes()
    (root / "stacks" / "Pulumi.dev.yaml").write_bytes(stack)
    return root
