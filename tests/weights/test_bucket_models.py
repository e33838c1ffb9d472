"""Models in a bucket: what is taken of them, and what is refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.hub_models import safetensors
from tpuflex.errors import ConflictError, NotFoundError, WeightsError
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import GsUrl
from tpuflex.weights.checkpoint_bucket import Listing, checkpoint_objects, list_model

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]

PLACE = GsUrl("acme-models", "team/tiny")
SHARD = "model.safetensors"
FILES = {
    "config.json": b"{}",
    SHARD: safetensors(),
    "tokenizer.json": b'{"version": "1.0"}',
    "pytorch_model.bin": b"a pickle",
    ".gitattributes": b"x",
    "original/config.json": b"{}",
    "tokenizer.model": b"x",
}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud."""
    with EmbeddedCloud(tmp_path / "emulator", clock=ManualClock()) as running:
        yield running


@pytest.fixture
def bucket(cloud: EmbeddedCloud) -> Bucket:
    """A bucket with a model."""
    made = storage_bucket(PLACE.bucket, project="acme", environ=dict(cloud.environ()))
    made.create(location="us-east5")
    for name, content in FILES.items():
        made.blob(f"{PLACE.prefix}/{name}").upload_from_string(content)
    return made


def listing(cloud: EmbeddedCloud, place: GsUrl = PLACE) -> Listing:
    """What would be fetched of ``place``."""
    return list_model(
        checkpoint_objects(place.bucket, place.prefix, environ=dict(cloud.environ())),
        place,
        ServerNeeds(),
    )


@pytest.mark.usefixtures("bucket")
def test_what_serving_needs_is_listed(cloud: EmbeddedCloud) -> None:
    """With what names exactly its content; the rest beside it is named."""
    found = listing(cloud)
    assert [file.name for file in found.files] == [
        "config.json",
        SHARD,
        "tokenizer.json",
        "tokenizer.model",
    ]
    assert found.left_out == ("original/config.json", "pytorch_model.bin")
    assert all(file.generation and len(file.crc32c) == 8 for file in found.files)


@pytest.mark.parametrize(
    ("place", "error", "text"),
    [
        (GsUrl("acme-models", "tea"), NotFoundError, "gs://acme-models/tea/ holds no files"),
        (
            GsUrl("acme-models", "team/tiny/original"),
            WeightsError,
            "gs://acme-models/team/tiny/original cannot be served:\n  *.safetensors: missing",
        ),
        (GsUrl("nobodys-models", "tiny"), NotFoundError, "gs://nobodys-models does not exist"),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_what_is_no_model_is_refused(
    cloud: EmbeddedCloud, place: GsUrl, error: type[Exception], text: str
) -> None:
    """A place without a model is refused by a look at its list, with what to write instead."""
    with pytest.raises(error) as caught:
        listing(cloud, place)
    assert str(caught.value).startswith(text)
    assert "gs://BUCKET/PREFIX" in str(getattr(caught.value, "hint", ""))


def test_a_checkpoint_that_is_not_whole_is_refused(cloud: EmbeddedCloud, bucket: Bucket) -> None:
    """While somebody uploads a model, or where its headers are damaged, nothing is fetched."""
    index = bucket.blob(f"{PLACE.prefix}/model.safetensors.index.json")
    index.upload_from_string('{"weight_map": {"a": "model-2.safetensors"}}')
    with pytest.raises(WeightsError, match=r"model-2\.safetensors"):
        listing(cloud)
    index.delete()
    bucket.blob(f"{PLACE.prefix}/config.json").upload_from_string("not json")
    with pytest.raises(WeightsError, match=r"config\.json"):
        listing(cloud)


def test_what_is_deleted_meanwhile_is_told(cloud: EmbeddedCloud, bucket: Bucket) -> None:
    """A file that is gone when it is read is named, and not its bucket."""
    environ = dict(cloud.environ())
    objects = checkpoint_objects(PLACE.bucket, PLACE.prefix, environ=environ)
    objects.listed()
    bucket.blob(f"{PLACE.prefix}/{SHARD}").delete()
    with pytest.raises(ConflictError, match=rf"{PLACE}/{SHARD} is not there any more"):
        objects.read(SHARD, 0, 10)


def test_what_is_stored_compressed_is_refused(cloud: EmbeddedCloud, bucket: Bucket) -> None:
    """The bytes of a compressed object are not those of the file: nothing is fetched of it."""
    blob = bucket.blob(f"{PLACE.prefix}/tokenizer.json")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"{}"))
    with pytest.raises(WeightsError, match=r"tokenizer\.json is stored compressed .*gzip"):
        listing(cloud)
