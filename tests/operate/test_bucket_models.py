"""Models in a bucket: fetched once, resumed, checked, refused."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import google_crc32c
import pytest

from embedded_cloud.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.full_disk import full_from
from tests.hub_models import safetensors
from tpuflex.errors import ConflictError, NotFoundError, WeightsError
from tpuflex.gcp.checkpoint_objects import CheckpointObject, CheckpointObjects, checkpoint_objects
from tpuflex.gcp.storage_client import storage_bucket
from tpuflex.gcp.weights_files import Progress
from tpuflex.operate.bucket_models import BucketModels
from tpuflex.operate.checkpoint_source import GsUrl
from tpuflex.operate.fetched_directory import source_of

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
    "tokenizer.model.part": b"xy",
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


def models(tmp_path: Path, cloud: EmbeddedCloud) -> BucketModels:
    """The models that are kept below ``tmp_path``."""
    environ = dict(cloud.environ())
    return BucketModels(
        tmp_path / "models",
        lambda place: checkpoint_objects(place.bucket, place.prefix, environ=environ),
    )


def unseen() -> AbstractContextManager[Progress]:
    """A transfer that nobody looks at."""
    return nullcontext(lambda _done, _total: None)


@pytest.mark.usefixtures("bucket")
def test_a_model_is_fetched_once(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """What serving needs is fetched with the right content, the rest beside it is named, and what
    has not changed is not fetched again."""
    said: list[str] = []
    kept = models(tmp_path, cloud)
    directory = kept.directory(PLACE, said.append, unseen)

    names = {path.relative_to(directory).as_posix() for path in directory.rglob("*")}
    assert names == {".tpuflex-source", "config.json", SHARD, "tokenizer.json", "tokenizer.model"}
    assert (directory / SHARD).read_bytes() == FILES[SHARD]
    assert source_of(directory) == "gs://acme-models/team/tiny"
    assert said == [
        f"bucket: 4 files, {len(FILES[SHARD]) / 1e6:.0f} MB, of {PLACE}, into {directory};"
        " left out, as no data formats: .gitattributes, pytorch_model.bin, tokenizer.model.part,"
        " original/"
    ]
    assert kept.directory(PLACE, said.append, unseen) == directory
    assert len(said) == 1


def test_another_content_is_another_directory(
    cloud: EmbeddedCloud, bucket: Bucket, tmp_path: Path
) -> None:
    """Who replaces a file in the bucket changes nothing in what was fetched."""
    kept = models(tmp_path, cloud)
    first = kept.directory(PLACE, print, unseen)
    bucket.blob(f"{PLACE.prefix}/config.json").upload_from_string(b'{"a": 1}')
    second = kept.directory(PLACE, print, unseen)

    assert first != second
    assert (first / "config.json").read_bytes() == b"{}"
    assert (second / "config.json").read_bytes() == b'{"a": 1}'


@pytest.mark.parametrize(
    ("place", "error", "text"),
    [
        (GsUrl("acme-models", "team"), NotFoundError, "gs://acme-models/team/ holds no files"),
        (
            GsUrl("acme-models", "team/tiny/original"),
            WeightsError,
            "gs://acme-models/team/tiny/original holds no *.safetensors, which vLLM on TPU loads",
        ),
        (GsUrl("nobodys-models", "tiny"), NotFoundError, "gs://nobodys-models does not exist"),
    ],
)
@pytest.mark.usefixtures("bucket")
def test_what_is_no_model_is_refused(
    cloud: EmbeddedCloud, tmp_path: Path, place: GsUrl, error: type[Exception], text: str
) -> None:
    """A place without a model is refused by a look at its list, with what to write instead."""
    with pytest.raises(error) as caught:
        models(tmp_path, cloud).check(place)
    assert str(caught.value).startswith(text)
    assert "gs://BUCKET/PREFIX" in str(getattr(caught.value, "hint", ""))
    assert not (tmp_path / "models").exists()


def test_a_checkpoint_that_is_not_whole_is_refused(
    cloud: EmbeddedCloud, bucket: Bucket, tmp_path: Path
) -> None:
    """While somebody uploads a model, or where its headers are damaged, nothing is fetched."""
    index = bucket.blob(f"{PLACE.prefix}/model.safetensors.index.json")
    index.upload_from_string('{"weight_map": {"a": "model-2.safetensors"}}')
    with pytest.raises(WeightsError, match=r"model-2\.safetensors"):
        models(tmp_path, cloud).check(PLACE)
    index.delete()
    bucket.blob(f"{PLACE.prefix}/config.json").upload_from_string("not json")
    with pytest.raises(WeightsError, match=r"config\.json"):
        models(tmp_path, cloud).check(PLACE)


def test_what_is_deleted_meanwhile_is_told(cloud: EmbeddedCloud, bucket: Bucket) -> None:
    """A file that is gone when it is read is named, and not its bucket."""
    environ = dict(cloud.environ())
    objects = checkpoint_objects(PLACE.bucket, PLACE.prefix, environ=environ)
    objects.listed()
    bucket.blob(f"{PLACE.prefix}/{SHARD}").delete()
    with pytest.raises(ConflictError, match=rf"{PLACE}/{SHARD} is not there any more"):
        objects.read(SHARD, 0, 10)


def test_what_is_stored_compressed_is_refused(
    cloud: EmbeddedCloud, bucket: Bucket, tmp_path: Path
) -> None:
    """The bytes of a compressed object are not those of the file: nothing is fetched of it."""
    blob = bucket.blob(f"{PLACE.prefix}/tokenizer.json")
    blob.content_encoding = "gzip"
    blob.upload_from_string(gzip.compress(b"{}"))
    with pytest.raises(WeightsError, match=r"tokenizer\.json is stored compressed .*gzip"):
        models(tmp_path, cloud).check(PLACE)


class Objects(CheckpointObjects):
    """Objects whose content changes once they are listed, or ends too early."""

    def __init__(self, directory: Path, served: dict[str, bytes]) -> None:
        self._directory, self._served = directory, served
        self.asked: list[tuple[str, int]] = []
        self.conflict = False

    def listed(self) -> tuple[CheckpointObject, ...]:
        """What there is."""
        whole = {name: FILES[name] for name in ("config.json", SHARD)}
        return tuple(
            CheckpointObject(name, len(content), 1, f"{google_crc32c.value(content):08x}")
            for name, content in whole.items()
        )

    def read(self, name: str, start: int, length: int) -> bytes:
        """What is served of it; headers, which are read before a directory is made, are whole."""
        if not any(self._directory.glob("*.partial")):
            return FILES[name][start : start + length]
        self.asked.append((name, start))
        if self.conflict:
            raise ConflictError("it was replaced", status=412)
        return self._served[name][start : start + length]


def test_another_run_goes_on_within_a_file(tmp_path: Path) -> None:
    """What a stopped run has left of a file is kept, and only the rest is asked for."""
    served = {"config.json": b"{}", SHARD: FILES[SHARD]}
    objects = Objects(tmp_path, served)
    objects.conflict = True
    kept = BucketModels(tmp_path, lambda _: objects)
    with pytest.raises(ConflictError):
        kept.directory(PLACE, print, unseen)
    (partial,) = tmp_path.glob("*.partial")
    (partial / f"{SHARD}.part").write_bytes(FILES[SHARD][:1000])

    again = Objects(tmp_path, served)
    directory = BucketModels(tmp_path, lambda _: again).directory(PLACE, print, unseen)

    # Its header, in two parts, and then the rest.
    assert [start for name, start in again.asked if name == SHARD] == [0, 8, 1000]
    assert (directory / SHARD).read_bytes() == FILES[SHARD]
    assert not partial.exists()


@pytest.mark.parametrize("size", [1_000_000, len(FILES[SHARD]) - 1])
def test_a_disk_that_is_full_is_told_and_what_has_come_is_kept(tmp_path: Path, size: int) -> None:
    """Whether the middle or the end of a file cannot be written, the file and the reason are named,
    and the next run asks for the rest alone."""
    served, said = {"config.json": b"{}", SHARD: FILES[SHARD]}, list[str]()
    kept = BucketModels(tmp_path, lambda _: Objects(tmp_path, served))
    with full_from(size), pytest.raises(WeightsError) as told:
        kept.directory(PLACE, said.append, unseen)
    (partial,) = tmp_path.glob("*.partial")
    assert told.value.message == f"{partial / SHARD} cannot be written: File too large"
    assert told.value.hint == "Make room, or set TPUFLEX_HOME to a directory on a larger disk."
    assert (partial / f"{SHARD}.part").read_bytes() == FILES[SHARD][:size]

    again = Objects(tmp_path, served)
    directory = BucketModels(tmp_path, lambda _: again).directory(PLACE, said.append, unseen)
    assert [start for name, start in again.asked if name == SHARD] == [0, 8, size]
    assert (directory / SHARD).read_bytes() == FILES[SHARD]


@pytest.mark.parametrize("came", [FILES[SHARD][:-1] + b"!", FILES[SHARD][:-1]])
def test_what_is_not_what_is_listed_is_refused(tmp_path: Path, came: bytes) -> None:
    """A content that is another one or ends too early is refused, and no directory is made."""
    kept = BucketModels(tmp_path, lambda _: Objects(tmp_path, {"config.json": b"{}", SHARD: came}))
    with pytest.raises(WeightsError, match="what came is not what the bucket lists"):
        kept.directory(PLACE, print, unseen)
    assert [path.suffix for path in tmp_path.iterdir() if path.is_dir()] == [".partial"]
