"""A stack that moves into the library, and loses its own bucket with the same `up`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.test_prepare import OURS, Case, case, on
from tpuflex.boot.config import weights_prefix
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli import weights_elsewhere
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.weights_elsewhere import lost_texts
from tpuflex.errors import ApiError


def moving(project: Path, compile_cache: str) -> Case:
    """The dev stack, in the library, with nothing there yet, and a source."""
    stack = case(project, source="./model", bucket="library").preparation.cloud.stack
    serving = stack.settings.serving.model_copy(update={"compile_cache": compile_cache})
    settings = stack.settings.model_copy(update={"serving": serving})
    found = on(replace(stack, settings=settings))
    found.bucket.there = None
    cloud = found.preparation.cloud
    before = PlannedWeights(cloud.made_bucket, found.bucket.prefix, OURS.sha256)
    found.preparation.before = before
    return found


@pytest.mark.parametrize(("compile_cache", "refused"), [("host", True), ("bucket", False)])
def test_what_was_served_is_not_given_up_unseen(
    project: Path, monkeypatch: pytest.MonkeyPatch, compile_cache: str, refused: bool
) -> None:
    """Where its bucket cannot be looked at and is about to go, nothing else is pushed instead."""

    def away(_cloud: Cloud) -> Iterator[tuple[str, str]]:
        raise ApiError("away")
        yield  # pragma: no cover

    monkeypatch.setattr(weights_elsewhere, "_buckets", away)
    stack = moving(project, compile_cache)
    if refused:
        with pytest.raises(ApiError, match="away"):
            stack.preparation._question()
        return
    stack.preparation._question()
    assert "could not be told whether another bucket" in stack.said[0]


def test_sets_that_go_with_the_bucket_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other revisions in the stack's own bucket are not copied: each is said, before the question,
    unless the bucket stays."""
    monkeypatch.setattr(Cloud, "is_there", lambda _cloud, _bucket: True)
    for compile_cache, count in (("host", 1), ("bucket", 0)):
        cloud = moving(project, compile_cache).preparation.cloud
        kept, tuned = (
            SimpleNamespace(prefix=prefix, total_bytes=10**9)
            for prefix in (
                weights_prefix(cloud.stack.settings.model),
                "models/m/2",
            )
        )
        there = SimpleNamespace(list=lambda both=(kept, tuned): both)
        monkeypatch.setattr(weights_elsewhere, "weights_in", lambda *_words, _is=there: _is)
        lines = lost_texts(cloud)
        assert len(lines) == count
        assert all("models/m/2, 1.00 GB, is deleted with that bucket" in line for line in lines)
        (project / "model" / "config.json").unlink()
        (project / "model").rmdir()
