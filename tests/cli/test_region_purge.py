"""`tpuflex down --purge-weights` of a stack in two regions: its own sets go, from each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import (
    FAR,
    HOME,
    listed,
    prefix_of,
    push,
    remove,
    tiny_checkpoint,
    two_regions,
)
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.steps.down_purge import planned_copies, planned_purge, purge
from tpuflex.errors import ConflictError
from tpuflex.gcp.weights import weights_bucket
from tpuflex.gcp.weights_removal import Removal
from tpuflex.gcp.weights_usage import note_use


@pytest.fixture
def pushed(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """Its weights were pushed from here, and lie in both regions."""
    with two_regions(project, tmp_path) as found:
        push(found, tiny_checkpoint(tmp_path / "tiny"))
        yield found


def served(pushed: Doctor) -> PlannedWeights:
    """What the slice in the state was made for."""
    found = pushed.cloud.weights.find(prefix_of(pushed))
    assert found is not None
    return PlannedWeights(HOME, prefix_of(pushed), found.sha256, frozenset({FAR}))


def planned(cloud: Cloud, slice_: PlannedWeights | None) -> list[tuple[Cloud, Removal]]:
    """What a purge would remove, with the cloud of each region."""
    home = planned_purge(cloud, slice_)
    return [*([] if home is None else [(cloud, home)]), *planned_copies(cloud, slice_)]


def forget_pushes(pushed: Doctor) -> None:
    """Let all of it have been pushed from somewhere else."""
    (pushed.stack.own_files / "pushed-weights.json").unlink()


def empty(pushed: Doctor, *buckets: str) -> None:
    """Remove all that the buckets hold."""
    for bucket in buckets:
        for name in listed(pushed, bucket):
            remove(pushed, bucket, name)


def colleague_pushes(pushed: Doctor, directory: Path, bucket: str) -> str:
    """Somebody pushes other weights of the same name from a home of their own; their hash."""
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text("{}")
    (directory / "model.safetensors").write_bytes(b"of a colleague")
    there = weights_bucket(bucket, project="tpuflex-dev", environ=pushed.cloud.environ)
    name = pushed.stack.settings.model.name
    report = there.push(
        directory, prefix_of(pushed), model=name, revision="1", progress=lambda _done, _total: None
    )
    return report.manifest.sha256


def test_a_colleagues_weights_of_the_same_name_stay(pushed: Doctor, tmp_path: Path) -> None:
    """What was served and pushed from here is known by its hash: in the home, and in every region.
    The refusal says what is there, and what removes it all the same."""
    mine = served(pushed)
    empty(pushed, HOME, FAR)
    theirs = colleague_pushes(pushed, tmp_path / "other", HOME)
    for slice_ in (mine, None):
        with pytest.raises(ConflictError, match=f"manifest {theirs}.*{mine.manifest_sha256}") as at:
            planned_purge(pushed.cloud, slice_)
        assert f"tpuflex weights rm gs://{HOME}/{prefix_of(pushed)} --stack dev" in at.value.hint
    colleague_pushes(pushed, tmp_path / "other", FAR)
    with pytest.raises(ConflictError, match=f"gs://{FAR}/.* holds other weights"):
        planned_copies(pushed.cloud, mine)
    forget_pushes(pushed)
    with pytest.raises(ConflictError, match="was neither served by this stack nor pushed from"):
        planned_purge(pushed.cloud, None)
    assert len(listed(pushed, HOME)) == len(listed(pushed, FAR)) == 3
    old = PlannedWeights(HOME, mine.prefix, "", frozenset({FAR}))
    assert len(planned(pushed.cloud, old)) == 2  # an older version served what it found


def test_what_somebody_pushes_while_the_stack_goes_stays(pushed: Doctor, tmp_path: Path) -> None:
    """Between the question and the removal: other weights, and the same ones once more. What the
    teardown itself notes in the set is no reason to leave it."""
    cloud = pushed.cloud
    (_, home), (far_cloud, far) = planned(cloud, served(pushed))
    empty(pushed, HOME)
    colleague_pushes(pushed, tmp_path / "other", HOME)
    with pytest.raises(ConflictError, match="somebody has pushed there meanwhile"):
        purge(cloud, home)
    assert len(listed(pushed, HOME)) == 3
    note_use(far_cloud.weights.contents(far.prefix), cloud.now().date())
    purge(far_cloud, far)
    assert listed(pushed, FAR) == {}


def test_what_was_only_pushed_goes_from_every_region(pushed: Doctor) -> None:
    """Without an `up`: a copy from the home is the home's."""
    assert [there.bucket for there, _ in planned(pushed.cloud, None)] == [HOME, FAR]


def test_a_region_that_was_taken_away_keeps_nothing(pushed: Doctor) -> None:
    """The slice in the state says where the weights were, which the stack file does not any more. A
    bucket that is none of the library's is left alone."""
    before = served(pushed)
    pushed.change("slice", zones=("us-east5-a",))
    pushed.change("network", subnetwork_cidrs={})
    forget_pushes(pushed)
    pushed.call("POST", "storage/v1/b?project=tpuflex-dev", {"name": "a-colleagues-bucket"})
    copies = before.copies | {"a-colleagues-bucket", "a-bucket-that-is-gone"}
    slice_ = PlannedWeights(HOME, before.prefix, before.manifest_sha256, copies)
    places = planned(pushed.cloud, slice_)
    for each in places:
        purge(*each)

    assert [there.bucket for there, _ in places] == [HOME, FAR]
    assert (listed(pushed, HOME), listed(pushed, FAR)) == ({}, {})
