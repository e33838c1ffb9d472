"""A removal of weights that is killed at a call, and typed once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.faults.rule import Stage, Where
from embedded_cloud.server import EmbeddedCloud
from tests.google.conftest import PREFIX, PROJECT, push
from tests.weights.killed import kill, run_killed
from tpuflex.weights.bucket import WeightsBucket, weights_bucket
from tpuflex.weights.removal import planned_removal, remove


def filled(environ: dict[str, str], directory: Path) -> WeightsBucket:
    """The bucket with one set of two files."""
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"one" * 1000)
    bucket = weights_bucket("bucket-1", project=PROJECT, environ=environ)
    bucket._bucket.client.create_bucket("bucket-1", location="US-EAST5")
    push(bucket, directory)
    return bucket


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("MANIFEST.json", Stage.BEFORE_COMMIT),
        ("MANIFEST.json", Stage.AFTER_COMMIT),
        ("model.safetensors", Stage.AFTER_COMMIT),
    ],
)
def test_the_same_command_goes_on(tmp_path: Path, name: str, stage: Stage) -> None:
    """Killed when an object was to go, whether it is gone or not: what is left is whole or has no
    manifest, never half a set that verifies; the same once more leaves nothing."""
    rule = kill(Where(method="DELETE", path=f"{name}$"), stage)
    with EmbeddedCloud(tmp_path / "cloud", project=PROJECT) as cloud:
        bucket = filled(dict(cloud.environ()), tmp_path / "checkpoint")
        run_killed(cloud, "remove", PROJECT, PREFIX, "bucket-1", rule=rule)
        whole = any(one.manifest is not None for one in bucket.list())
        problems = bucket.verify(PREFIX).problems if whole else ()
        remove(planned_removal(bucket.contents(PREFIX), unfinished=False))
        after = bucket.list()

    assert whole is (name == "MANIFEST.json" and stage is Stage.BEFORE_COMMIT)
    assert problems == ()
    assert after == ()
