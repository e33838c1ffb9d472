"""Weights copied from one bucket to another on the embedded cloud: whole or not at all."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_cloud.services.storage.copy_handlers import BYTES_PER_CALL
from tests.google.conftest import PREFIX, nobody_looks, push
from tpuflex.errors import ConflictError, WeightsError
from tpuflex.weights.bucket import WeightsBucket
from tpuflex.weights.copies import copy_set
from tpuflex.weights.push import PushReport
from tpuflex.weights.stored_set import SetObjects
from tpuflex.weights.upload import note_source

if TYPE_CHECKING:
    from tests.google.conftest import Clients

SOURCE = f"hf://acme/tiny@{'a' * 40}"
#: More than one call rewrites into another location.
LARGE = b"0123456789abcdef" * (BYTES_PER_CALL // 16) + b"tail"
TODAY = dt.date(2026, 11, 23)


@pytest.fixture
def filled(clients: Clients, checkpoint: Path) -> WeightsBucket:
    """A bucket with a set, in us-east5; another one in europe-west4 is empty."""
    (checkpoint / "model.safetensors").write_bytes(LARGE)
    here = clients.bucket()
    here._bucket.client.create_bucket("bucket-2", location="EUROPE-WEST4")
    push(here, checkpoint)
    note_source(here._bucket.get_blob(f"{PREFIX}/MANIFEST.json"), SOURCE)
    return here


def expected_of(there: SetObjects) -> str:
    """The hash of the set that is there."""
    assert there.found is not None
    return there.found.sha256


def copied(clients: Clients, seen: list[int] | None = None, *, again: bool = False) -> PushReport:
    """Copy the set to the other bucket."""
    origin, target = (clients.bucket(name).contents(PREFIX) for name in ("bucket-1", "bucket-2"))

    def progress(done: int, _total: int) -> None:
        if seen is not None:
            seen.append(done)

    expected = "" if origin.found is None else origin.found.sha256
    return copy_set(origin, target, expected=expected, progress=progress, used=TODAY, again=again)


def test_a_set_arrives_whole_and_nothing_is_uploaded(
    clients: Clients, filled: WeightsBucket
) -> None:
    """The copy verifies, has the manifest to the byte and where it came from; a large file comes in
    several calls; the day of the copy is the day of the last use."""
    seen: list[int] = []
    report = copied(clients, seen)
    target = clients.bucket("bucket-2")
    origin, found = filled.find(PREFIX), target.find(PREFIX)
    (stored,) = target.list()

    assert report.sent == ("config.json", "model.safetensors")
    assert report.bytes_sent == report.manifest.total_bytes == seen[-1]
    assert seen == sorted(seen)
    assert len(seen) >= 4  # what is there, the small file, and the large one in two calls
    assert target.verify(PREFIX).problems == ()
    assert found == origin
    assert (stored.source, stored.used) == (SOURCE, TODAY)
    copy = target._bucket.get_blob(f"{PREFIX}/model.safetensors")
    assert copy.download_as_bytes(raw_download=True) == LARGE


@pytest.mark.usefixtures("filled")
def test_a_copy_that_broke_off_goes_on(clients: Clients) -> None:
    """What is there with its checksum stays as it is, to the generation; what is there with another
    one is replaced, and no manifest was there in between."""
    copied(clients)
    target = clients.bucket("bucket-2")
    bucket = target._bucket
    kept = bucket.get_blob(f"{PREFIX}/model.safetensors").generation
    bucket.blob(f"{PREFIX}/MANIFEST.json").delete()
    bucket.blob(f"{PREFIX}/config.json").upload_from_string("half")

    report = copied(clients)

    assert (report.sent, report.kept) == (("config.json",), ("model.safetensors",))
    assert bucket.get_blob(f"{PREFIX}/model.safetensors").generation == kept
    assert target.verify(PREFIX).problems == ()


def test_nothing_of_a_colleague_is_replaced(clients: Clients, filled: WeightsBucket) -> None:
    """A complete set in its place, and a file that somebody writes while it is copied, stay; the
    same file is taken for what it is."""
    first = filled.contents(PREFIX)
    target = clients.bucket("bucket-2")
    empty, bucket = target.contents(PREFIX), target._bucket
    wanted = expected_of(first)
    bucket.blob(f"{PREFIX}/config.json").upload_from_string("a colleague's")
    with pytest.raises(ConflictError, match="somebody else is writing"):
        copy_set(first, empty, expected=wanted, progress=nobody_looks)
    assert bucket.get_blob(f"{PREFIX}/config.json").download_as_bytes() == b"a colleague's"
    assert target.find(PREFIX) is None

    bucket.blob(f"{PREFIX}/config.json").upload_from_string("{}")
    copy_set(first, empty, expected=wanted, progress=nobody_looks)
    assert target.verify(PREFIX).problems == ()
    assert copied(clients).sent == ()  # a colleague has copied the same
    other = bucket.get_blob(f"{PREFIX}/MANIFEST.json")
    other.upload_from_string(other.download_as_bytes().replace(b'"tiny"', b'"huge"'))
    with pytest.raises(ConflictError, match="another complete set"):
        copied(clients)


@pytest.mark.usefixtures("filled")
def test_a_copy_that_was_damaged_is_mended(clients: Clients) -> None:
    """What has another checksum is copied anew under the same manifest; with ``again`` every file
    is, since who may write there can give altered content the checksum of the right one."""
    copied(clients)
    target = clients.bucket("bucket-2")
    bucket, wanted = target._bucket, target.find(PREFIX)
    kept = bucket.get_blob(f"{PREFIX}/model.safetensors").generation
    untouched = copied(clients)
    bucket.blob(f"{PREFIX}/config.json").upload_from_string("altered")
    mended = copied(clients)
    assert (untouched.sent, mended.sent) == ((), ("config.json",))
    assert bucket.get_blob(f"{PREFIX}/model.safetensors").generation == kept
    assert (target.find(PREFIX), target.verify(PREFIX).problems) == (wanted, ())
    assert copied(clients, again=True).sent == ("config.json", "model.safetensors")
    assert bucket.get_blob(f"{PREFIX}/model.safetensors").generation != kept
    assert (target.find(PREFIX), target.verify(PREFIX).problems) == (wanted, ())


@pytest.mark.parametrize("damaged", [False, True])
def test_two_copies_of_the_same_set_side_by_side(
    clients: Clients, filled: WeightsBucket, damaged: bool
) -> None:
    """Two stacks that fill one region: what the first has written, the second takes for its own,
    also where both have seen the same damage, and leaves it as it is."""
    bucket = clients.bucket("bucket-2")._bucket
    if damaged:
        copied(clients)
        bucket.blob(f"{PREFIX}/config.json").upload_from_string("altered")
    origin = filled.contents(PREFIX)
    first, second, third = (clients.bucket("bucket-2").contents(PREFIX) for _ in range(3))
    wanted, seen = expected_of(origin), dict[str, int]()
    copy_set(origin, first, expected=wanted, progress=nobody_looks)
    for blob in bucket.list_blobs():
        seen[blob.name] = blob.generation
    copy_set(origin, second, expected=wanted, progress=nobody_looks)
    assert {blob.name: blob.generation for blob in bucket.list_blobs()} == seen
    assert clients.bucket("bucket-2").verify(PREFIX).problems == ()

    manifest = bucket.get_blob(f"{PREFIX}/MANIFEST.json")
    text = manifest.download_as_bytes()
    manifest.delete()  # as one that is being mended
    copy_set(origin, third, expected=wanted, progress=nobody_looks)
    assert bucket.get_blob(f"{PREFIX}/MANIFEST.json").download_as_bytes() == text


def test_another_manifest_that_is_written_meanwhile_is_not_taken(
    clients: Clients, filled: WeightsBucket
) -> None:
    """Of the same files and the same length, and whether one was seen there before or not."""
    bucket = clients.bucket("bucket-2")._bucket
    origin, empty = filled.contents(PREFIX), clients.bucket("bucket-2").contents(PREFIX)
    wanted = expected_of(origin)
    copied(clients)
    bucket.blob(f"{PREFIX}/config.json").upload_from_string("altered")
    damaged = clients.bucket("bucket-2").contents(PREFIX)
    bucket.blob(f"{PREFIX}/config.json").upload_from_string("{}")
    manifest = bucket.get_blob(f"{PREFIX}/MANIFEST.json")
    other = manifest.download_as_bytes().replace(b'"tiny"', b'"huge"')
    manifest.upload_from_string(other)
    for seen in (empty, damaged):
        with pytest.raises(ConflictError, match="somebody else is writing"):
            copy_set(origin, seen, expected=wanted, progress=nobody_looks)
        assert bucket.get_blob(f"{PREFIX}/MANIFEST.json").download_as_bytes() == other


def test_what_is_not_whole_is_not_copied(clients: Clients, filled: WeightsBucket) -> None:
    """A set without a manifest, with one in another text, or with a file that is missing, is
    refused before anything is written; one that changes meanwhile leaves no manifest."""
    seen = filled.contents(PREFIX)
    target = clients.bucket("bucket-2")
    manifest = filled._bucket.get_blob(f"{PREFIX}/MANIFEST.json")
    text = manifest.download_as_bytes()
    clients.delete(f"{PREFIX}/config.json")
    with pytest.raises(WeightsError, match=r"does not match its manifest \(config.json\)"):
        copied(clients)
    assert target.stored(PREFIX) is None
    with pytest.raises(ConflictError, match="removed or replaced while"):
        copy_set(
            seen,
            target.contents(PREFIX),
            expected=expected_of(seen),
            progress=nobody_looks,
        )
    assert target.find(PREFIX) is None
    manifest.upload_from_string(text + b"\n")
    with pytest.raises(WeightsError, match="no manifest that a push has written"):
        copied(clients)
    manifest.delete()
    with pytest.raises(WeightsError, match="no manifest that a push has written"):
        copied(clients)


def test_a_set_that_was_exchanged_is_not_copied(
    clients: Clients, filled: WeightsBucket, checkpoint: Path
) -> None:
    """Who may write to the bucket may put another complete set there after one was trusted: nothing
    of it is copied."""
    trusted = expected_of(filled.contents(PREFIX))
    (checkpoint / "config.json").write_text('{"other": 1}')
    push(filled, checkpoint)
    target = clients.bucket("bucket-2")

    with pytest.raises(ConflictError, match="other weights than a moment ago"):
        copy_set(
            filled.contents(PREFIX),
            target.contents(PREFIX),
            expected=trusted,
            progress=nobody_looks,
        )
    assert target.stored(PREFIX) is None
