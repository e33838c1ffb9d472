"""google-cloud-storage against the emulator, as an independent client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from runpy import run_path

import pytest
from google.api_core.exceptions import Conflict, Forbidden, PreconditionFailed
from google.cloud.storage import Bucket, Client, transfer_manager  # type: ignore[import-untyped]
from google.oauth2.credentials import Credentials

from embedded_cloud.server import EmbeddedCloud
from tests.embedded_cloud.api import PROJECT, TOKEN

_EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "embedded_bucket.py"

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


def test_a_locked_retention_policy_stays(client: Client, bucket: Bucket) -> None:
    """It can be made longer, and neither shorter nor removed; what is in the bucket stays, and so
    does the bucket."""
    bucket.retention_period = 3600
    bucket.patch()
    bucket.blob("x").upload_from_string("x")
    stale = client.bucket(bucket.name)
    stale._set_properties({**bucket._properties, "metageneration": "1"})
    with pytest.raises(PreconditionFailed):
        stale.lock_retention_policy()

    bucket.lock_retention_policy()

    assert client.get_bucket(bucket.name).retention_policy_locked
    bucket.retention_period = 7200
    bucket.patch()
    assert (bucket.retention_period, bucket.retention_policy_locked) == (7200, True)
    blob = bucket.get_blob("x")
    assert blob.retention_expiration_time - blob.time_created == timedelta(hours=2)
    for period, refused in ((60, "Cannot reduce retention"), (None, "which cannot be removed")):
        bucket.retention_period = period
        with pytest.raises(Forbidden, match=refused):
            bucket.patch()
    with pytest.raises(Forbidden, match="cannot be deleted or overwritten until"):
        blob.delete()
    with pytest.raises(Conflict, match="is not empty"):
        bucket.delete()
