"""A push of weights that is killed at a call, and typed once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedded_cloud.faults.rule import Stage, Where
from embedded_cloud.server import EmbeddedCloud
from tests.google.conftest import PREFIX, PROJECT
from tests.weights.killed import begin, kill, run_killed
from tests.weights.test_removal_kill import filled


# Before a call is as after the one before it: each moment once.
@pytest.mark.parametrize(
    ("method", "nth", "stage"),
    [
        ("delete", 1, Stage.BEFORE_COMMIT),
        ("delete", 1, Stage.AFTER_COMMIT),
        ("insert", 1, Stage.AFTER_COMMIT),
        ("insert", 2, Stage.AFTER_COMMIT),
    ],
)
def test_the_same_push_goes_on(tmp_path: Path, method: str, nth: int, stage: Stage) -> None:
    """Killed when a push that replaces a set deletes the manifest, sends a file or writes the new
    manifest: what has a manifest is the old set or the new one, whole, and never half of each; the
    same once more has the new one, each file once."""
    directory = tmp_path / "checkpoint"
    rule = kill(Where(method_id=f"storage.objects.{method}"), stage, nth)
    with EmbeddedCloud(tmp_path / "cloud", project=PROJECT) as cloud:
        bucket = filled(dict(cloud.environ()), directory)
        (directory / "model.safetensors").write_bytes(b"two" * 1000)
        arguments = ("push", PROJECT, PREFIX, "bucket-1", str(directory))
        run_killed(cloud, *arguments, rule=rule)
        whole = any(one.manifest is not None for one in bucket.list())
        problems = bucket.verify(PREFIX).problems if whole else ()
        with begin(cloud, *arguments) as process:
            _, said_again = process.communicate(timeout=60)
        (after,) = bucket.list()
        check = bucket.verify(PREFIX)

    # Before the old manifest is gone, or after the new one is there.
    assert whole is (
        (method, nth, stage)
        in (("delete", 1, Stage.BEFORE_COMMIT), ("insert", 2, Stage.AFTER_COMMIT))
    )
    assert problems == ()
    assert process.returncode == 0, said_again.decode()
    assert (after.files, after.beside, check.problems) == (2, 0, ())
