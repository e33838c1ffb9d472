"""Weights against the embedded cloud: pushed completely or not at all, and only what changed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from embedded_cloud.core.json_types import JsonValue
from tests.google.conftest import PREFIX, push
from tpuflex.boot.manifest import PART_BYTES
from tpuflex.errors import AccessError, NotFoundError
from tpuflex.planning.model_files import WeightsProblem

if TYPE_CHECKING:
    from tests.google.conftest import Clients

#: Larger than one request of an upload, so that it is sent in several.
LARGE = b"0123456789abcdef" * (18 * 1024 * 1024 // 16)


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A directory that looks like a model."""
    directory = tmp_path / "checkpoint"
    (directory / "nested").mkdir(parents=True)
    (directory / "config.json").write_text("{}")
    (directory / "model-1.safetensors").write_bytes(b"one" * 1000)
    (directory / "nested" / "model-2.safetensors").write_bytes(b"two" * 1000)
    (directory / "empty.txt").touch()
    return directory


def names(clients: Clients) -> set[str]:
    """What lies in the bucket, below the prefix."""
    items = clients.storage.call("GET", "/storage/v1/b/bucket-1/o").get("items", [])
    assert isinstance(items, list)
    found = {str(item["name"]) for item in items if isinstance(item, dict)}
    return {name.removeprefix(f"{PREFIX}/") for name in found}


def test_push_brings_files_and_manifest(clients: Clients, checkpoint: Path) -> None:
    """Every file arrives, nested and empty ones too, and matches the manifest."""
    report = push(clients.bucket(), checkpoint)
    assert names(clients) == {
        *("config.json", "model-1.safetensors", "nested/model-2.safetensors", "empty.txt"),
        "MANIFEST.json",
    }
    assert clients.bucket().verify(PREFIX).problems == ()
    assert report.bytes_sent == report.manifest.total_bytes == 6002
    assert clients.bucket().verify(PREFIX).sha256 == report.manifest.sha256


def test_a_large_file_has_the_sums_of_its_parts(clients: Clients, checkpoint: Path) -> None:
    """The manifest has the SHA-256 of each part of a file that is longer than one."""
    shard = checkpoint / "model-1.safetensors"
    shard.write_bytes(b"a" * PART_BYTES + b"tail")
    found = {file.path: file for file in push(clients.bucket(), checkpoint).manifest.files}
    sums = [hashlib.sha256(part).hexdigest() for part in (b"a" * PART_BYTES, b"tail")]
    assert found["model-1.safetensors"].parts == tuple(sums)
    assert found["nested/model-2.safetensors"].parts == ()


def test_second_push_sends_nothing(clients: Clients, checkpoint: Path) -> None:
    """What is there is not sent again, and the manifest is the same to the byte."""
    first = push(clients.bucket(), checkpoint)
    report = push(clients.bucket(), checkpoint)
    assert report.sent == ()
    assert report.bytes_sent == 0
    assert report.manifest.sha256 == first.manifest.sha256


def test_everything_is_sent_again_on_demand(clients: Clients, checkpoint: Path) -> None:
    """S7: a CRC32C can be forged; a push with ``again`` sends every file whatever its CRC32C."""
    first = push(clients.bucket(), checkpoint)

    again = push(clients.bucket(), checkpoint, again=True)

    assert again.sent == first.sent
    assert again.kept == ()
    assert again.manifest.sha256 == first.manifest.sha256


def test_only_what_changed_is_sent(clients: Clients, checkpoint: Path) -> None:
    """A changed file replaces its object; the others stay."""
    push(clients.bucket(), checkpoint)
    (checkpoint / "model-1.safetensors").write_bytes(b"new" * 1000)
    report = push(clients.bucket(), checkpoint)
    assert report.sent == ("model-1.safetensors",)
    assert clients.bucket().verify(PREFIX).problems == ()


def test_interrupted_push_goes_on_where_it_stopped(clients: Clients, checkpoint: Path) -> None:
    """Without a manifest the set is incomplete; a second push sends what is missing."""
    push(clients.bucket(), checkpoint)
    clients.delete(f"{PREFIX}/MANIFEST.json")
    clients.delete(f"{PREFIX}/model-1.safetensors")
    (stored,) = clients.bucket().list()
    assert stored.manifest is None
    report = push(clients.bucket(), checkpoint)
    assert report.sent == ("model-1.safetensors",)
    assert clients.bucket().verify(PREFIX).problems == ()


def test_failed_push_leaves_no_manifest(clients: Clients, checkpoint: Path) -> None:
    """A push that fails half-way leaves nothing that a host would take for complete."""
    push(clients.bucket(), checkpoint)
    (checkpoint / "model-1.safetensors").write_bytes(b"new" * 1000)

    class StoppedError(RuntimeError):
        pass

    def progress(done: int, total: int) -> None:
        if done == total:
            raise StoppedError

    with pytest.raises(StoppedError):
        push(clients.bucket(), checkpoint, progress=progress)
    assert "MANIFEST.json" not in names(clients)
    push(clients.bucket(), checkpoint)
    assert clients.bucket().verify(PREFIX).problems == ()


def test_progress_counts_every_byte_once(clients: Clients, checkpoint: Path) -> None:
    """Progress rises to the total, in steps within a large file."""
    (checkpoint / "large.safetensors").write_bytes(LARGE)
    seen: list[tuple[int, int]] = []
    push(clients.bucket(), checkpoint, progress=lambda done, total: seen.append((done, total)))
    done = [count for count, _ in seen]
    assert done == sorted(done)
    assert seen[-1] == (6002 + len(LARGE), 6002 + len(LARGE))
    assert len(seen) >= 6
    assert clients.bucket().verify(PREFIX).problems == ()


def test_verify_names_what_is_wrong(clients: Clients, checkpoint: Path) -> None:
    """Missing, altered and additional objects are told apart."""
    push(clients.bucket(), checkpoint)
    clients.delete(f"{PREFIX}/empty.txt")
    altered = clients.bucket()
    other = checkpoint.with_name("other")
    other.mkdir()
    (other / "config.json").write_text("[]")
    (other / "model-1.safetensors").write_bytes(b"short")
    (other / "stray.txt").write_bytes(b"?")
    manifest = altered._bucket.blob(f"{PREFIX}/MANIFEST.json").download_as_bytes()
    push(altered, other)
    altered._bucket.blob(f"{PREFIX}/MANIFEST.json").upload_from_string(manifest)
    check = altered.verify(PREFIX)
    assert set(check.problems) == {
        WeightsProblem("empty.txt", "missing"),
        WeightsProblem("config.json", "checksum"),
        WeightsProblem("model-1.safetensors", "size"),
    }
    assert check.beside == ("stray.txt",)


def test_what_a_push_that_broke_off_has_left_is_no_damage(
    clients: Clients, checkpoint: Path
) -> None:
    """A set of more files broke off, and the next push brought one of fewer: the manifest is of
    these, hosts read nothing else, and the rest is told beside it."""
    push(clients.bucket(), checkpoint)
    clients.delete(f"{PREFIX}/MANIFEST.json")
    (checkpoint / "nested" / "model-2.safetensors").unlink()

    report = push(clients.bucket(), checkpoint)

    check = clients.bucket().verify(PREFIX)
    assert "nested/model-2.safetensors" in names(clients)
    assert report.sent == ()
    assert (check.problems, check.beside) == ((), ("nested/model-2.safetensors",))


def test_list_tells_complete_from_incomplete(clients: Clients, checkpoint: Path) -> None:
    """Each set of weights is listed with its size."""
    push(clients.bucket(), checkpoint)
    (stored,) = clients.bucket().list()
    assert stored.prefix == PREFIX
    assert stored.files == 4
    assert stored.total_bytes == 6002
    assert stored.manifest is not None


def test_damaged_manifest_is_replaced(clients: Clients, checkpoint: Path) -> None:
    """A manifest that is none counts as missing, and a push writes it anew."""
    bucket = clients.bucket()
    push(bucket, checkpoint)
    bucket._bucket.blob(f"{PREFIX}/MANIFEST.json").upload_from_string(json.dumps({"schema": 9}))
    with pytest.raises(NotFoundError, match=r"MANIFEST\.json"):
        bucket.verify(PREFIX)
    assert push(bucket, checkpoint).sent == ()
    assert bucket.verify(PREFIX).problems == ()


def test_hidden_files_stay_at_home(clients: Clients, checkpoint: Path) -> None:
    """Caches and version control beside the weights are not pushed."""
    (checkpoint / ".cache").mkdir()
    (checkpoint / ".cache" / "lock").touch()
    push(clients.bucket(), checkpoint)
    assert not [name for name in names(clients) if name.startswith(".")]


def test_missing_bucket_names_the_remedy(clients: Clients, checkpoint: Path) -> None:
    """Without its bucket, a push says what makes one."""
    with pytest.raises(NotFoundError) as caught:
        push(clients.bucket("bucket-2"), checkpoint)
    assert "gs://bucket-2" in caught.value.message
    assert "tpuflex weights push" in str(caught.value.hint)


def test_real_token_never_goes_to_the_embedded_cloud(clients: Clients) -> None:
    """With a Google token in the environment no client of the embedded cloud is made."""
    clients.environ["GOOGLE_OAUTH_ACCESS_TOKEN"] = "ya29.real"
    with pytest.raises(AccessError):
        clients.bucket()


def test_lost_billing_is_no_missing_role(clients: Clients, checkpoint: Path) -> None:
    """An engineer on call: billing lost in the middle of an `up` was said to need a role on the
    bucket."""
    push(clients.bucket(), checkpoint)
    strict: JsonValue = {"enabled": False}
    clients.storage.call("POST", "/_emulator/strictness", body={"billing": strict})

    with pytest.raises(AccessError) as refused:
        push(clients.bucket(), checkpoint)

    assert "gcloud billing projects link my-project" in str(refused.value.hint)
    assert "Storage Object Admin" not in str(refused.value.hint)
