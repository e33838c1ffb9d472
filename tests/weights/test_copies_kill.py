"""A copy of weights that is killed at a call, and typed once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.faults.rule import Stage, Where
from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.services.storage.copy_handlers import BYTES_PER_CALL
from tests.google.conftest import PREFIX, PROJECT, nobody_looks, push
from tests.weights.killed import kill, run_killed
from tpuflex.weights.bucket import weights_bucket
from tpuflex.weights.copies import copy_set

#: Each writing call of a copy: of the small file, of the large one (twice), of the manifest.
CALLS = {
    "config": ("config.json/rewriteTo/", 1),
    "first call of a large file": ("model.safetensors/rewriteTo/", 1),
    "last call of a large file": ("model.safetensors/rewriteTo/", 2),
    "manifest": ("^/upload/storage/v1/b/bucket-2/o", 1),
}


@pytest.mark.parametrize("stage", [Stage.BEFORE_COMMIT, Stage.AFTER_COMMIT])
@pytest.mark.parametrize("call", CALLS)
def test_the_same_command_goes_on(tmp_path: Path, call: str, stage: Stage) -> None:
    """Whether or not the call was done: what is there is whole or has no manifest, never half a set
    that verifies; the source is untouched; the same once more has one whole set."""
    path, which = CALLS[call]
    rule = kill(Where(method="POST", path=path), stage, which)
    with EmbeddedCloud(tmp_path / "cloud", project=PROJECT) as cloud:
        environ = dict(cloud.environ())
        origin, target = (
            weights_bucket(name, project=PROJECT, environ=environ)
            for name in ("bucket-1", "bucket-2")
        )
        for bucket, location in ((origin, "US-EAST5"), (target, "EUROPE-WEST4")):
            bucket._bucket.client.create_bucket(bucket._bucket.name, location=location)
        directory = tmp_path / "checkpoint"
        directory.mkdir()
        (directory / "config.json").write_text("{}")
        (directory / "model.safetensors").write_bytes(b"1" * (BYTES_PER_CALL + 1))
        push(origin, directory)
        before = [(each.name, each.generation) for each in origin._bucket.list_blobs()]
        run_killed(cloud, "copy", PROJECT, PREFIX, "bucket-1", "bucket-2", rule=rule)
        whole = target.find(PREFIX) is not None
        problems = target.verify(PREFIX).problems if whole else ()
        if not whole:
            copy_set(
                origin.contents(PREFIX),
                target.contents(PREFIX),
                expected=origin.verify(PREFIX).sha256,
                progress=nobody_looks,
            )
        after = target.verify(PREFIX)
        names = [each.name for each in target._bucket.list_blobs(versions=True)]
        untouched = [(each.name, each.generation) for each in origin._bucket.list_blobs()]

    assert whole is (call == "manifest" and stage is Stage.AFTER_COMMIT)
    assert problems == after.problems == ()
    assert after.beside == ()
    assert len(names) == len(set(names)) == 3
    assert untouched == before
