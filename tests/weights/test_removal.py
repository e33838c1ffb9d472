"""Weights are removed manifest first, and only what was seen; when they were used is kept."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.checkpoints import pushing
from tests.google.conftest import PREFIX, push
from tpuflex.catalog.weight_formats import MANIFEST_NAME
from tpuflex.errors import ApiError, ConflictError
from tpuflex.settings.bucket import ExistingBucket
from tpuflex.weights.bucket import WeightsBucket, weights_bucket
from tpuflex.weights.removal import planned_removal, remove
from tpuflex.weights.use import note_use

if TYPE_CHECKING:
    from tests.google.conftest import Clients
    from tpuflex.google.transport import JsonObject

DAY = dt.date(2026, 11, 23)


def names(bucket: WeightsBucket, prefix: str = PREFIX) -> list[str]:
    """What is at ``prefix``."""
    return sorted(bucket.contents(prefix).objects)


def leave(bucket: WeightsBucket, directory: Path, name: str) -> None:
    """Let a push of other weights have left the file ``name``."""
    (directory / name).write_bytes(b"two" * 1000)
    push(bucket, directory)
    (directory / name).unlink()
    push(bucket, directory)


def test_a_set_goes_and_the_others_stay(clients: Clients, checkpoint: Path) -> None:
    """All of it and nothing else; a second time there is nothing to do."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    push(bucket, checkpoint, "models/tiny/10")

    remove(planned_removal(bucket.contents(PREFIX), unfinished=False))

    assert [one.prefix for one in bucket.list()] == ["models/tiny/10"]
    assert bucket.verify("models/tiny/10").problems == ()
    assert planned_removal(bucket.contents(PREFIX), unfinished=False).nothing


def test_a_set_that_a_retention_policy_keeps_is_whole_afterwards(
    clients: Clients, checkpoint: Path
) -> None:
    """Its manifest is the youngest, and the first to be refused: nothing of the set has gone, and
    the remedy is no role."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    policy: JsonObject = {"retentionPolicy": {"retentionPeriod": "3600"}}
    clients.storage.call("PATCH", "/storage/v1/b/bucket-1", body=policy)

    with pytest.raises(ApiError, match="subject to bucket's retention policy") as refused:
        remove(planned_removal(bucket.contents(PREFIX), unfinished=False))
    with pytest.raises(ApiError) as refused_itself:
        clients.delete(f"{PREFIX}/{MANIFEST_NAME}")

    assert str(refused.value.hint) == str(refused_itself.value.hint)
    assert str(refused.value.hint).endswith(
        "gcloud storage buckets update gs://bucket-1 --clear-retention-period"
    )
    assert bucket.verify(PREFIX).problems == ()


def test_only_what_is_beside_a_complete_set_goes(clients: Clients, checkpoint: Path) -> None:
    """The set verifies as before, and its manifest was not touched."""
    bucket = clients.bucket()
    leave(bucket, checkpoint, "old.safetensors")
    (before,) = bucket.list()
    written = bucket.contents(PREFIX).objects[MANIFEST_NAME].generation

    planned = planned_removal(bucket.contents(PREFIX), unfinished=True)
    remove(planned)

    (after,) = bucket.list()
    assert (before.beside, before.beside_bytes, after.beside) == (1, 3000, 0)
    assert (planned.size, planned.whole) == (3000, False)
    assert bucket.verify(PREFIX).problems == ()
    assert bucket.contents(PREFIX).objects[MANIFEST_NAME].generation == written


def test_of_a_set_that_broke_off_all_goes(clients: Clients, checkpoint: Path) -> None:
    """Without a usable manifest no host reads any of it."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    clients.delete(f"{PREFIX}/{MANIFEST_NAME}")

    remove(planned_removal(bucket.contents(PREFIX), unfinished=True))

    assert names(bucket) == []


def test_what_was_replaced_meanwhile_stays(clients: Clients, checkpoint: Path) -> None:
    """Another push has replaced a file since it was looked at: that is not deleted, and the set has
    no manifest, so that nobody takes the half of it for whole."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    planned = planned_removal(bucket.contents(PREFIX), unfinished=False)
    bucket._bucket.blob(f"{PREFIX}/model.safetensors").upload_from_string("new")

    with pytest.raises(ConflictError, match="somebody else is writing"):
        remove(planned)

    assert names(bucket) == ["model.safetensors"]


def test_a_push_that_ends_meanwhile_is_told(clients: Clients, checkpoint: Path) -> None:
    """It kept files that the removal took: whoever removes is told to look."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    clients.delete(f"{PREFIX}/{MANIFEST_NAME}")
    planned = planned_removal(bucket.contents(PREFIX), unfinished=False)
    bucket._bucket.blob(f"{PREFIX}/{MANIFEST_NAME}").upload_from_string("{}")

    with pytest.raises(ConflictError, match="somebody has pushed there meanwhile"):
        remove(planned)
    assert names(bucket) == [MANIFEST_NAME, "config.json", "model.safetensors"]


def test_what_a_push_has_named_meanwhile_stays(clients: Clients, checkpoint: Path) -> None:
    """What was beside the set when somebody was asked is part of it when the answer comes."""
    bucket = clients.bucket()
    leave(bucket, checkpoint, "more.safetensors")
    planned = planned_removal(bucket.contents(PREFIX), unfinished=True)
    (checkpoint / "more.safetensors").write_bytes(b"two" * 1000)
    push(bucket, checkpoint)

    with pytest.raises(ConflictError, match="somebody has pushed there meanwhile"):
        remove(planned)
    assert bucket.verify(PREFIX).problems == ()


def test_what_somebody_has_come_to_use_meanwhile_stays(clients: Clients, checkpoint: Path) -> None:
    """An `up` has noted its use since the set was looked at: nothing of it goes."""
    bucket = clients.bucket()
    push(bucket, checkpoint, used=DAY)
    planned = planned_removal(bucket.contents(PREFIX), unfinished=False)
    note_use(bucket.contents(PREFIX), DAY + dt.timedelta(1))

    with pytest.raises(ConflictError):
        remove(planned)
    assert bucket.verify(PREFIX).problems == ()


def test_a_set_with_a_file_that_is_held_stays_whole(clients: Clients, checkpoint: Path) -> None:
    """Cloud Storage would refuse that file, when the manifest is gone already."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    blob = bucket.contents(PREFIX).objects["model.safetensors"]
    blob.temporary_hold = True
    blob.patch()

    with pytest.raises(ConflictError, match=r"model\.safetensors is under a hold"):
        remove(planned_removal(bucket.contents(PREFIX), unfinished=False))
    assert bucket.verify(PREFIX).problems == ()


@pytest.mark.parametrize("unfinished", [True, False])
def test_a_set_below_another_stays(clients: Clients, checkpoint: Path, unfinished: bool) -> None:
    """One stack writes to gs://bucket-1/models and another to gs://bucket-1, which takes the sets
    of the first for what pushes have left."""
    below, above = (
        weights_bucket(
            "bucket-1",
            project="my-project",
            environ=clients.environ,
            existing=ExistingBucket("bucket-1", prefix),
        )
        for prefix in ("models", "")
    )
    push(below, checkpoint, "models/models/tiny/1")
    (taken,) = above.list()
    above._bucket.blob(f"{taken.prefix}/old", chunk_size=None).upload_from_string("left")
    blob = above._bucket.get_blob(f"{taken.prefix}/old")
    blob.metadata = {"tpuflex-pushed": "1"}
    blob.patch()

    planned = planned_removal(above.contents(taken.prefix), unfinished=unfinished)
    remove(planned)

    assert (taken.prefix, taken.manifest) == ("models/models/tiny", None)
    assert [blob.name for blob in planned.files] == ["models/models/tiny/old"]
    assert planned.to_json()["kept"] == ["1/"]
    assert below.verify("models/models/tiny/1").problems == ()


def test_a_stray_manifest_keeps_nothing_in_the_library(clients: Clients, checkpoint: Path) -> None:
    """Where tpuflex alone writes, no set lies below another: all of it goes."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    bucket._bucket.blob(f"{PREFIX}/{MANIFEST_NAME}/{MANIFEST_NAME}").upload_from_string("stray")

    planned = planned_removal(bucket.contents(PREFIX), unfinished=False)
    remove(planned)

    assert planned.to_json()["kept"] == []
    assert names(bucket) == []


def test_a_push_names_nothing_that_was_removed_meanwhile(
    clients: Clients, checkpoint: Path
) -> None:
    """A file that was there when the push began and is gone at its end: no manifest is written, and
    the same push brings it."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    clients.delete(f"{PREFIX}/{MANIFEST_NAME}")
    (checkpoint / "config.json").write_text("[]")

    def removing(done: int, total: int) -> None:
        if done == total:
            clients.delete(f"{PREFIX}/model.safetensors")

    with pytest.raises(ConflictError, match=r"model\.safetensors was removed or replaced"):
        bucket.push(pushing(checkpoint, PREFIX, progress=removing))
    assert MANIFEST_NAME not in names(bucket)
    push(bucket, checkpoint)
    assert bucket.verify(PREFIX).problems == ()


def test_versions_are_kept_where_the_bucket_keeps_them(clients: Clients, checkpoint: Path) -> None:
    """What a library's bucket keeps for seven days can be had back."""
    body: JsonObject = {"versioning": {"enabled": True}}
    clients.storage.call("PATCH", "/storage/v1/b/bucket-1", body=body)
    bucket = clients.bucket()
    push(bucket, checkpoint)

    remove(planned_removal(bucket.contents(PREFIX), unfinished=False))

    assert names(bucket) == []
    kept = bucket._bucket.list_blobs(prefix=PREFIX, versions=True)
    assert sorted(blob.name.rpartition("/")[2] for blob in kept) == [
        *(MANIFEST_NAME, "config.json", "model.safetensors"),
    ]


def test_in_a_bucket_of_yours_only_what_a_push_has_written_goes(
    clients: Clients, checkpoint: Path
) -> None:
    """Others' files below the same prefix stay, and are named; also one under a name of the set."""
    yours = weights_bucket(
        "bucket-1",
        project="my-project",
        environ=clients.environ,
        existing=ExistingBucket("bucket-1", "llm"),
    )
    prefix = f"llm/{PREFIX}"
    push(yours, checkpoint, prefix)
    for name in ("notes.txt", "config.json"):
        yours._bucket.blob(f"{prefix}/{name}").upload_from_string("theirs")

    planned = planned_removal(yours.contents(prefix), unfinished=False)
    remove(planned)

    assert planned.kept == ("config.json", "notes.txt")
    assert names(yours, prefix) == ["config.json", "notes.txt"]


def test_the_last_use_is_kept_by_the_day(clients: Clients, checkpoint: Path) -> None:
    """With the push; later by a note, which never goes back; neither content nor manifest hash
    change, nor what else is kept there."""
    bucket = clients.bucket()
    sha256 = push(bucket, checkpoint, used=DAY).manifest.sha256
    seen = [bucket.list()[0].used]
    for day in (DAY, DAY + dt.timedelta(2), DAY + dt.timedelta(1)):
        note_use(bucket.contents(PREFIX), day)
        seen.append(bucket.list()[0].used)

    assert seen == [DAY, DAY, DAY + dt.timedelta(2), DAY + dt.timedelta(2)]
    assert bucket.verify(PREFIX).sha256 == sha256
    assert push(bucket, checkpoint, used=DAY).sent == ()
    assert bucket.list()[0].used == DAY + dt.timedelta(2)


def test_nothing_is_noted_of_a_set_that_is_not_complete(clients: Clients, checkpoint: Path) -> None:
    """Nor of one that others have put into a bucket of the user's own."""
    bucket = clients.bucket()
    push(bucket, checkpoint, used=DAY)
    yours = weights_bucket(
        "bucket-1",
        project="my-project",
        environ=clients.environ,
        existing=ExistingBucket("bucket-1"),
    )
    note_use(yours.contents(PREFIX), DAY + dt.timedelta(9))
    assert bucket.list()[0].used == DAY
    clients.delete(f"{PREFIX}/{MANIFEST_NAME}")
    note_use(bucket.contents(PREFIX), DAY)
    assert bucket.list()[0].used is None
