"""google-cloud-storage against the emulator, as an independent client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest
from google.api_core.exceptions import Conflict, NotFound, PreconditionFailed
from google.cloud.storage import Bucket, Client, transfer_manager  # type: ignore[import-untyped]
from google.oauth2.credentials import Credentials

from embedded_cloud.server import EmbeddedCloud
from embedded_cloud.storage.copy_handlers import BYTES_PER_CALL
from tests.embedded_cloud.api import PROJECT, TOKEN

_EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "embedded_bucket.py"

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


def _credentials() -> Credentials:
    return Credentials(token=TOKEN)  # type: ignore[no-untyped-call]


def _client(cloud: EmbeddedCloud) -> Client:
    return Client(
        project=PROJECT,
        credentials=_credentials(),
        client_options={"api_endpoint": cloud.url},
    )


@pytest.fixture
def client(cloud: EmbeddedCloud) -> Iterator[Client]:
    """A client with an explicit endpoint."""
    made = _client(cloud)
    yield made
    made.close()


@pytest.fixture
def bucket(client: Client) -> Bucket:
    """A regional bucket with uniform access."""
    wanted = client.bucket("weights-1")
    wanted.iam_configuration.uniform_bucket_level_access_enabled = True
    wanted.iam_configuration.public_access_prevention = "enforced"
    return client.create_bucket(wanted, location="us-east5")


def test_buckets(client: Client, bucket: Bucket) -> None:
    """Create, get, change, list and delete."""
    assert bucket.location == "US-EAST5"
    assert bucket.iam_configuration.public_access_prevention == "enforced"
    with pytest.raises(Conflict):
        client.create_bucket("weights-1")
    bucket.labels = {"tpuflex-owner": "me"}
    bucket.soft_delete_policy.retention_duration_seconds = 0
    bucket.patch()
    bucket.reload()
    assert bucket.labels == {"tpuflex-owner": "me"}
    assert bucket.soft_delete_policy.retention_duration_seconds == 0
    assert [each.name for each in client.list_buckets()] == ["weights-1"]
    bucket.blob("x").upload_from_string("1")
    with pytest.raises(Conflict):
        bucket.delete()
    bucket.delete(force=True)
    assert client.lookup_bucket("weights-1") is None


def test_uploads_and_downloads(bucket: Bucket, tmp_path: Path) -> None:
    """Multipart, resumable in chunks, ranges, and the library's own checksum checks."""
    small = bucket.blob("small.txt")
    small.upload_from_string("hello", content_type="text/plain")
    assert small.download_as_text() == "hello"
    data = os.urandom(3 * 256 * 1024 + 17)
    source = tmp_path / "big.bin"
    source.write_bytes(data)
    big = bucket.blob("dir/big.bin", chunk_size=256 * 1024)
    big.upload_from_filename(str(source), checksum="crc32c")
    assert big.size == len(data)
    assert bucket.blob("dir/big.bin").download_as_bytes(checksum="md5") == data
    assert bucket.blob("dir/big.bin", chunk_size=256 * 1024).download_as_bytes() == data
    assert big.download_as_bytes(start=5, end=9) == data[5:10]
    assert [each.name for each in bucket.list_blobs(prefix="dir/")] == ["dir/big.bin"]


def test_conditions_and_generations(bucket: Bucket) -> None:
    """A create-only upload that comes second fails; the generation distinguishes objects."""
    blob = bucket.blob("x")
    blob.upload_from_string("1", if_generation_match=0)
    first = blob.generation
    with pytest.raises(PreconditionFailed):
        bucket.blob("x").upload_from_string("2", if_generation_match=0)
    blob.upload_from_string("2", if_generation_match=first)
    assert blob.generation > first
    with pytest.raises(NotFound):
        bucket.blob("x", generation=first).download_as_bytes()
    with pytest.raises(PreconditionFailed):
        blob.delete(if_generation_match=first)
    blob.delete()
    assert not blob.exists()


def test_changes_of_objects(client: Client, bucket: Bucket) -> None:
    """Metadata, and a copy that keeps it."""
    blob = bucket.blob("x")
    blob.upload_from_string("hello")
    blob.metadata = {"a": "1"}
    blob.patch()
    assert bucket.get_blob("x").metadata == {"a": "1"}
    other = client.create_bucket("weights-2", location="us-east5")
    other.blob("z").rewrite(blob)
    assert other.get_blob("z").metadata == {"a": "1"}


def test_a_rewrite_across_locations_goes_on_by_its_token(client: Client, bucket: Bucket) -> None:
    """What Google's library is told between the calls: a token, and how far it is."""
    blob = bucket.blob("large")
    blob.upload_from_string(bytes(BYTES_PER_CALL + 1))
    copied = client.create_bucket("weights-2", location="europe-west4").blob("large")
    token, done, size = copied.rewrite(blob)
    assert (token is None, done, size) == (False, BYTES_PER_CALL, BYTES_PER_CALL + 1)
    assert copied.rewrite(blob, token=token) == (None, size, size)
    assert copied.crc32c == blob.crc32c


def test_the_transfer_manager(bucket: Bucket, tmp_path: Path) -> None:
    """Many files at once up, one file in parallel ranges down."""
    names = [f"part-{index}.safetensors" for index in range(5)]
    for name in names:
        (tmp_path / name).write_bytes(os.urandom(300_000))
    results = transfer_manager.upload_many_from_filenames(
        bucket,
        names,
        source_directory=str(tmp_path),
        blob_name_prefix="m/",
        worker_type=transfer_manager.THREAD,
        raise_exception=True,
    )
    assert results == [None] * 5
    target = tmp_path / "back"
    blob = bucket.get_blob(f"m/{names[0]}")
    transfer_manager.download_chunks_concurrently(
        blob,
        str(target),
        chunk_size=100_000,
        worker_type=transfer_manager.THREAD,
    )
    assert target.read_bytes() == (tmp_path / names[0]).read_bytes()


def test_multipart_uploads_of_the_xml_api_are_named(bucket: Bucket, tmp_path: Path) -> None:
    """upload_chunks_concurrently needs the XML API: 501 names the alternative."""
    source = tmp_path / "x"
    source.write_bytes(b"x" * 1000)
    with pytest.raises(Exception, match="501") as caught:
        transfer_manager.upload_chunks_concurrently(
            str(source),
            bucket.blob("x"),
            worker_type=transfer_manager.THREAD,
            deadline=5,
            retry=None,
        )
    assert "XML API" in str(vars(caught.value)["response"].text)


def test_the_environment_is_all_that_the_library_needs(
    cloud: EmbeddedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the variables of `emulator env`, the library's default client works unchanged."""
    for name, value in cloud.environ().items():
        monkeypatch.setenv(name, value)
    run_path(str(_EXAMPLE))
    client = Client()
    assert client.bucket("my-weights").blob("hello.txt").download_as_bytes() == b"hello"
    client.close()
