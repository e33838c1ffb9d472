"""A stack that moves into the library, and loses its own bucket with the same `up`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.test_prepare import OURS, Case, case, on
from tpuflex.boot.places import weights_prefix
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli import weights_elsewhere
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.weights_elsewhere import lost_texts
from tpuflex.errors import ApiError


def moving(project: Path) -> Case:
    """The dev stack, in the library, with nothing there yet, and a source."""
    found = on(case(project, source="./model", bucket="library").preparation.cloud.stack)
    found.bucket.there = None
    cloud = found.preparation.cloud
    before = PlannedWeights(cloud.made_bucket, found.bucket.prefix, OURS.sha256)
    found.preparation.before = before
    return found


def test_what_was_served_is_not_given_up_unseen(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where its bucket, which is about to go, cannot be looked at, nothing else is pushed."""

    def away(_cloud: Cloud) -> Iterator[tuple[str, str]]:
        raise ApiError("away")
        yield  # pragma: no cover

    monkeypatch.setattr(weights_elsewhere, "_buckets", away)
    stack = moving(project)
    with pytest.raises(ApiError, match="away"):
        stack.preparation._question()


def test_sets_that_go_with_the_bucket_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other revisions in the stack's own bucket are not copied: it is said before the question."""
    monkeypatch.setattr(Cloud, "is_there", lambda _cloud, _bucket: True)
    cloud = moving(project).preparation.cloud
    prefixes = (weights_prefix(cloud.stack.settings.model), "models/m/2")
    both = [SimpleNamespace(prefix=prefix, total_bytes=10**9) for prefix in prefixes]
    there = SimpleNamespace(list=lambda: both)
    monkeypatch.setattr(weights_elsewhere, "weights_in", lambda *_words: there)
    (line,) = lost_texts(cloud)
    assert "models/m/2, 1.00 GB, is deleted with that bucket" in line
