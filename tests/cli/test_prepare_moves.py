"""A stack that moves into the library, and loses its own bucket with the same `up`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.test_prepare import OURS, Case, case, on
from tpuflex.boot.places import weights_prefix
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.prepare import _lost_texts
from tpuflex.gcp import weights
from tpuflex.operate.weights_choice import Weights


def moving(project: Path) -> Case:
    """The dev stack, in the library, with nothing there yet, and a source."""
    found = on(case(project, source="./model", bucket="library").preparation.cloud.stack)
    found.bucket.there = None
    cloud = found.preparation.cloud
    before = PlannedWeights(cloud.made_bucket, found.bucket.prefix, OURS.sha256)
    found.preparation.before = before
    return found


def test_sets_that_go_with_the_bucket_are_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before the question, of each that the library does not have, too."""
    monkeypatch.setattr(Cloud, "is_there", lambda _cloud, _bucket: True)
    cloud = moving(project).preparation.cloud
    prefixes = (weights_prefix(cloud.stack.settings.model), "models/m/2")
    both = [SimpleNamespace(prefix=prefix, total_bytes=10**9) for prefix in prefixes]
    there = SimpleNamespace(list=lambda: both)
    monkeypatch.setattr(weights, "weights_bucket", lambda *_words, **_more: there)
    for found, gone in ((None, prefixes), (OURS.sha256, prefixes[1:])):
        lines = _lost_texts(cloud, Weights("gs://b/p", "dev", found, source=True))
        assert [each.partition(", 1.00 GB, is deleted with")[0] for each in lines] == [
            f"  warning  gs://{cloud.made_bucket}/{prefix}" for prefix in gone
        ]
