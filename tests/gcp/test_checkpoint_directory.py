"""Which files of a directory are a checkpoint's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tpuflex.errors import WeightsError
from tpuflex.gcp.checkpoint_directory import checkpoint_files, open_file


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot of a Hugging Face cache: links into the blobs beside it."""
    model = tmp_path / "models--org--tiny"
    snapshot = model / "snapshots" / "abc"
    (snapshot / "nested").mkdir(parents=True)
    (model / "blobs").mkdir()
    (model / "blobs" / "one").write_text("{}")
    (model / "blobs" / "two").write_bytes(b"tensors")
    (snapshot / "config.json").symlink_to("../../blobs/one")
    (snapshot / "nested" / "m.safetensors").symlink_to("../../../blobs/two")
    return snapshot


def test_the_blobs_of_a_cache_are_its_files(snapshot: Path) -> None:
    """A snapshot of a Hugging Face cache can be pushed as it is."""
    assert checkpoint_files(snapshot) == ("config.json", "nested/m.safetensors")
    with open_file(snapshot, "nested/m.safetensors") as file:
        assert file.read() == b"tensors"


@pytest.mark.parametrize(
    "target", ["../../refs/main", "../other/secret", "../../blobs/../refs/main"]
)
def test_only_the_blobs_are(snapshot: Path, target: str) -> None:
    """S14: what lies elsewhere in the cache, in another snapshot too, is not this snapshot's."""
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("abc")
    (snapshot.parent / "other").mkdir()
    (snapshot.parent / "other" / "secret").write_text("secret")
    (snapshot / "stray.json").symlink_to(target)

    with pytest.raises(WeightsError, match=r"'stray\.json' is a link to a file elsewhere"):
        checkpoint_files(snapshot)


def test_blobs_that_lead_elsewhere_are_not_its_files(snapshot: Path, tmp_path: Path) -> None:
    """S14: a link in the place of the blobs, or in them, opens no other directory."""
    (tmp_path / "secret").write_text("secret")
    blob = snapshot.parents[1] / "blobs" / "two"
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")

    with pytest.raises(WeightsError, match=r"m\.safetensors' is a link to a file elsewhere"):
        checkpoint_files(snapshot)


def test_links_within_the_directory_are_files(tmp_path: Path) -> None:
    """A link to another file of the same checkpoint is that file."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "again.json").symlink_to("config.json")

    assert checkpoint_files(tmp_path) == ("again.json", "config.json")


def test_what_changes_after_it_was_listed_is_not_opened(tmp_path: Path) -> None:
    """S14: a file that becomes a link or a pipe after the look is refused, without waiting."""
    directory = tmp_path / "checkpoint"
    directory.mkdir()
    (directory / "config.json").write_text("{}")
    (directory / "m.json").write_text("{}")
    assert "m.json" in checkpoint_files(directory)
    (directory / "m.json").unlink()

    (directory / "m.json").symlink_to("/etc/passwd")
    with pytest.raises(WeightsError, match="elsewhere"):
        open_file(directory, "m.json")

    (directory / "m.json").unlink()
    os.mkfifo(directory / "m.json")
    with pytest.raises(WeightsError, match="not a regular file"):
        open_file(directory, "m.json")


def test_hidden_links_stay_at_home(tmp_path: Path) -> None:
    """What is hidden is not looked at, wherever it leads."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".cache").symlink_to("/etc")
    (tmp_path / ".netrc").symlink_to("/etc/passwd")

    assert checkpoint_files(tmp_path) == ("config.json",)
