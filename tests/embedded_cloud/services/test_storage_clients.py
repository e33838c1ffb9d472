"""google-cloud-storage against the emulator, as an independent client."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path

import pytest
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
