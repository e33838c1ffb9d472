"""A push of a model elsewhere: two of its files at a time on this machine, resumed by what the
bucket has, refused where it is not what was listed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from huggingface_hub import constants

from embedded_cloud.core.clock import ManualClock
from embedded_cloud.server import EmbeddedCloud
from tests.checkpoints import pushing
from tests.full_disk import full_from
from tests.hub_models import MODEL, pauses, put_model, safetensors
from tpuflex.boot.manifest import Manifest, WeightsFile
from tpuflex.errors import ConflictError, InterruptedByUser, NotFoundError, WeightsError
from tpuflex.files.trusted import creation_lock
from tpuflex.google.storage_client import storage_bucket
from tpuflex.planning.model_files import ServerNeeds
from tpuflex.settings.weights_source import GsUrl, HubSource
from tpuflex.weights.bucket import WeightsBucket
from tpuflex.weights.checkpoint_bucket import bucket_model, checkpoint_objects
from tpuflex.weights.hub.client import HubClient, hub_model
from tpuflex.weights.model import Arrived, manifest_of_model
from tpuflex.weights.push import Push, PushReport
from tpuflex.weights.remote_model import FetchedFiles, RemoteFile, RemoteModel
from tpuflex.weights.stored_set import FoundManifest

if TYPE_CHECKING:
    from google.cloud.storage import Bucket  # type: ignore[import-untyped]

PREFIX = "models/tiny/1"
NEEDS = ServerNeeds()
PLACE = GsUrl("acme-models", "team/tiny")
SHARDS = tuple(f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
FILES = {"config.json", "tokenizer.json", *SHARDS}


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[EmbeddedCloud]:
    """An embedded cloud whose Hub has a model of three shards, and another bucket, too."""
    with EmbeddedCloud(tmp_path / "emulator", clock=ManualClock()) as running:
        directory = put_model(running.state_dir)
        for each in directory.glob("*.safetensors"):
            each.unlink()
        for number, shard in enumerate(SHARDS):
            (directory / shard).write_bytes(safetensors(name=f"w{number}"))
        theirs = made(running, PLACE.bucket)
        for name in FILES:
            blob = theirs.blob(f"{PLACE.prefix}/{name}")
            blob.upload_from_string((directory / name).read_bytes())
        made(running, "weights")
        yield running


def made(cloud: EmbeddedCloud, name: str) -> Bucket:
    """A new bucket."""
    bucket = storage_bucket(name, project="acme", environ=dict(cloud.environ()))
    bucket.create(location="us-east5")
    return bucket


def bucket(cloud: EmbeddedCloud) -> Bucket:
    """The bucket that is pushed to."""
    return storage_bucket("weights", project="acme", environ=dict(cloud.environ()))


def of_hub(cloud: EmbeddedCloud, home: Path) -> RemoteModel:
    """The model of the Hub as it is now."""
    client = HubClient(f"{cloud.url}/huggingface", str, pauses([]))
    return hub_model(client, HubSource(MODEL), NEEDS, home, FetchedFiles(home))


def of_bucket(cloud: EmbeddedCloud, home: Path) -> RemoteModel:
    """The model in a bucket as it is now."""
    objects = checkpoint_objects(PLACE.bucket, PLACE.prefix, environ=dict(cloud.environ()))
    return bucket_model(objects, PLACE, NEEDS, home, FetchedFiles(home))


Origin = Callable[[EmbeddedCloud, Path], RemoteModel]
BOTH = pytest.mark.parametrize("origin", [of_hub, of_bucket])


def push(cloud: EmbeddedCloud, remote: RemoteModel, **changes: Any) -> PushReport:
    """Push ``remote`` as the command line does."""
    how: dict[str, Any] = {"name": "tiny", "revision": "1", **changes}
    return WeightsBucket(bucket(cloud)).push(Push(model=remote, prefix=PREFIX, **how))


def versions(cloud: EmbeddedCloud) -> list[str]:
    """The names of all versions of all objects."""
    found = bucket(cloud).list_blobs(versions=True)
    return sorted(str(blob.name).removeprefix(f"{PREFIX}/") for blob in found)


def verified(cloud: EmbeddedCloud) -> Manifest:
    """The manifest of the set that is there, which is whole."""
    check = WeightsBucket(bucket(cloud)).verify(PREFIX)
    assert (check.problems, check.beside) == ((), ())
    return check.manifest


def remember_versions(cloud: EmbeddedCloud) -> None:
    """Have the bucket keep what is replaced, so that a second upload is seen."""
    found = bucket(cloud)
    found.versioning_enabled = True
    found.patch()


@BOTH
def test_two_files_at_a_time_are_here(cloud: EmbeddedCloud, tmp_path: Path, origin: Origin) -> None:
    """Three shards pass with room for two files. The set is the same, to the byte of its
    manifest, as one that is pushed from a directory; nothing stays here."""
    remote, seen = origin(cloud, tmp_path / "home"), [0]

    def look(_done: int, _total: int) -> None:
        here = [path.stat().st_size for path in remote.directory.rglob("*") if path.is_file()]
        seen.append(sum(size > 100_000 for size in here))

    report = push(cloud, remote, progress=look)
    assert max(seen) <= 2
    assert set(report.sent) == FILES
    assert list((tmp_path / "home" / "models").iterdir()) == []

    directory = tmp_path / "same"
    directory.mkdir()
    for name in FILES:
        content = (cloud.state_dir / "hub" / MODEL / name).read_bytes()
        (directory / name).write_bytes(content)
    made_bucket = made(cloud, "other")
    same = WeightsBucket(made_bucket).push(pushing(directory, PREFIX))
    assert report.manifest == same.manifest == verified(cloud)
    (found,) = WeightsBucket(bucket(cloud)).list()
    assert found.source == remote.source
    before = made_bucket.get_blob(f"{PREFIX}/MANIFEST.json").generation
    other = WeightsBucket(made_bucket)
    noted = other.push(Push(model=remote, prefix=PREFIX, name="tiny", revision="1"))
    assert (noted.sent, noted.manifest) == ((), same.manifest)
    assert [each.source for each in other.list()] == [remote.source]
    # It is there all the while: hosts may be waiting for it.
    assert made_bucket.get_blob(f"{PREFIX}/MANIFEST.json").generation == before


@BOTH
@pytest.mark.parametrize("after", [1, 3, 4])
def test_a_push_that_was_stopped_goes_on(
    cloud: EmbeddedCloud, tmp_path: Path, origin: Origin, after: int
) -> None:
    """Wherever it stops, the same command sends nothing twice, and no manifest is there before
    everything is."""
    remember_versions(cloud)
    calls = 0

    def stop(_done: int, _total: int) -> None:
        nonlocal calls
        calls += 1
        if calls > after:
            raise InterruptedByUser("Stopped.")

    with pytest.raises(InterruptedByUser):
        push(cloud, origin(cloud, tmp_path / "home"), progress=stop)
    there = set(versions(cloud))
    assert there < FILES
    report = push(cloud, origin(cloud, tmp_path / "home"))
    assert set(report.kept) >= there
    assert versions(cloud) == sorted({*FILES, "MANIFEST.json"})
    verified(cloud)


@BOTH
def test_what_is_there_is_known_by_its_sums(
    cloud: EmbeddedCloud, tmp_path: Path, origin: Origin
) -> None:
    """The same home fetches nothing again; another one, which has not seen the content, fetches it
    and sends nothing: it believes no sum that lies in the bucket."""
    first = push(cloud, origin(cloud, tmp_path / "home"))
    fetched: list[str] = []

    def counted(home: Path) -> RemoteModel:
        remote = origin(cloud, home)
        fetch = remote._fetch

        def noted(file: RemoteFile, directory: Path, arrived: Arrived) -> Path:
            fetched.append(file.path)
            return fetch(file, directory, arrived)

        remote._fetch = noted
        return remote

    again = push(cloud, counted(tmp_path / "home"))
    assert (again.manifest, again.sent, fetched) == (first.manifest, (), [])
    hashed = manifest_of_model(counted(tmp_path / "home"), name="tiny", revision="1")
    assert (hashed, fetched) == (first.manifest, [])
    other = push(cloud, counted(tmp_path / "elsewhere"))
    assert (other.manifest, other.sent, set(fetched)) == (first.manifest, (), FILES)


@BOTH
@pytest.mark.parametrize("path", ["tokenizer.json", SHARDS[1]])
def test_a_content_that_was_not_listed_is_refused(
    cloud: EmbeddedCloud, tmp_path: Path, origin: Origin, path: str
) -> None:
    """Of any file, one in Git, too: it is not sent, and there is no manifest."""
    remote = origin(cloud, tmp_path / "home")
    fetch = remote._fetch

    def altered(file: RemoteFile, directory: Path, arrived: Arrived) -> Path:
        place = fetch(file, directory, arrived)
        if file.path == path:
            place.write_bytes(b"?" * file.size)
        return place

    remote._fetch = altered
    with pytest.raises(WeightsError, match=rf"{path}: what came is not what the .* lists"):
        push(cloud, remote)
    assert path not in versions(cloud)
    assert "MANIFEST.json" not in versions(cloud)


@pytest.mark.parametrize(("origin", "error"), [(of_hub, NotFoundError), (of_bucket, ConflictError)])
def test_a_file_that_changes_upstream_is_refused(
    cloud: EmbeddedCloud, tmp_path: Path, origin: Origin, error: type[Exception]
) -> None:
    """What was listed is a commit, or objects by their generation: what takes their place is not
    fetched. The next command lists anew, and keeps what has not changed."""
    remote = origin(cloud, tmp_path / "home")
    changed = safetensors(name="w2")[:-1] + b"!"
    (cloud.state_dir / "hub" / MODEL / SHARDS[2]).write_bytes(changed)
    theirs = storage_bucket(PLACE.bucket, project="acme", environ=dict(cloud.environ()))
    theirs.blob(f"{PLACE.prefix}/{SHARDS[2]}").upload_from_string(changed)
    with pytest.raises(error):
        push(cloud, remote)
    assert {SHARDS[2], "MANIFEST.json"}.isdisjoint(versions(cloud))

    push(cloud, origin(cloud, tmp_path / "home"))
    assert bucket(cloud).blob(f"{PREFIX}/{SHARDS[2]}").download_as_bytes() == changed
    verified(cloud)


class OtherSetError(Exception):
    """Another set is there."""


def same_as_there(wanted: str, found: FoundManifest | None) -> None:
    """What is there is only replaced by itself."""
    if found is not None and found.sha256 != wanted:
        raise OtherSetError


@pytest.mark.parametrize("again", [False, True])
@BOTH
def test_a_set_is_only_taken_apart_for_one_that_may_take_its_place(
    cloud: EmbeddedCloud, tmp_path: Path, origin: Origin, again: bool
) -> None:
    """What is refused leaves the manifest, and so the hosts that boot with it, also where all
    files would be sent, or one of the set is damaged."""
    other = push(cloud, origin(cloud, tmp_path / "home"), name="another")
    if not again:
        bucket(cloud).blob(f"{PREFIX}/{SHARDS[1]}").upload_from_string(b"damaged")
    with pytest.raises(OtherSetError):
        push(cloud, origin(cloud, tmp_path / "home"), may_replace=same_as_there, again=again)
    found = WeightsBucket(bucket(cloud)).find(PREFIX)
    assert found is not None
    assert found.sha256 == other.manifest.sha256


def test_bytes_come_from_where_the_hub_is(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """And not by Xet, which sends the token to whatever host an answer names."""
    push(cloud, of_hub(cloud, tmp_path / "home"))
    assert constants.HF_HUB_DISABLE_XET


def test_what_a_killed_push_has_left_goes_with_the_next(
    cloud: EmbeddedCloud, tmp_path: Path
) -> None:
    """Whatever that fetches; what a push that still runs has here stays."""
    models = tmp_path / "home" / "models"
    for name in ("fetching-killed", "fetching-runs"):
        (models / name).mkdir(parents=True)
        (models / name / SHARDS[0]).touch()
        (models / f"{name}.lock").touch()
    (tmp_path / "home").chmod(0o700)
    models.chmod(0o700)
    with creation_lock(models / "fetching-runs"):
        push(cloud, of_bucket(cloud, tmp_path / "home"))
    assert {path.name for path in models.iterdir()} == {"fetching-runs", "fetching-runs.lock"}


def test_another_set_is_seen_before_anything_comes(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """By what the Hub lists; and where only a file of Git is another one, of which it lists no
    SHA-256, before anything is sent."""
    push(cloud, of_hub(cloud, tmp_path / "home"))
    model = cloud.state_dir / "hub" / MODEL
    (model / "tokenizer.json").write_text("[]")
    before = versions(cloud)
    with pytest.raises(OtherSetError):
        push(cloud, of_hub(cloud, tmp_path / "home"), may_replace=same_as_there)
    (model / SHARDS[0]).write_bytes(safetensors(name="w4"))
    remote = of_hub(cloud, tmp_path / "home")
    remote._fetch = lambda *_: pytest.fail("it came")
    with pytest.raises(OtherSetError):
        push(cloud, remote, may_replace=same_as_there)
    assert versions(cloud) == before
    verified(cloud)


def test_what_is_damaged_there_is_sent_again(cloud: EmbeddedCloud, tmp_path: Path) -> None:
    """And nothing else."""
    push(cloud, of_hub(cloud, tmp_path / "home"))
    bucket(cloud).blob(f"{PREFIX}/{SHARDS[1]}").upload_from_string(b"damaged")
    report = push(cloud, of_hub(cloud, tmp_path / "home"), may_replace=same_as_there)
    assert report.sent == (SHARDS[1],)
    verified(cloud)


@BOTH
def test_a_disk_without_room_is_told(
    cloud: EmbeddedCloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: Origin
) -> None:
    """Before anything comes, where two files do not fit; and where it gets full meanwhile."""
    remote = origin(cloud, tmp_path / "home")
    with full_from(1_000_000), pytest.raises(WeightsError) as told:
        push(cloud, remote)
    assert "cannot be written: File too large" in told.value.message
    assert str(told.value.hint).startswith("Make room, or set TPUFLEX_HOME")

    total = sum(file.size for file in remote.files)
    free = shutil.disk_usage(tmp_path)._replace(free=total // 2)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: free)
    with pytest.raises(WeightsError, match=r"for two of its files, and 0\.0 GB are free"):
        push(cloud, remote)
    assert set(versions(cloud)) <= {"config.json", "tokenizer.json"}


def test_notes_that_are_none_say_nothing(tmp_path: Path) -> None:
    """What is not readable as ours is as if it were not there."""
    file = RemoteFile("model.safetensors", 1, "a" * 64, sha256="a" * 64)
    sums = WeightsFile(path=file.path, size=1, crc32c="AAAAAA==", sha256="a" * 64)
    notes = FetchedFiles(tmp_path)
    notes.put(file, sums)
    assert notes.get(file) == sums
    for text in ("{", "[]", '{"' + "a" * 64 + '": {"crc32c": 1}}'):
        (tmp_path / "fetched-files.json").write_text(text)
        assert notes.get(file) is None
