"""Which files of a directory are a checkpoint's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tpuflex.errors import WeightsError
from tpuflex.weights.checkpoint_directory import (
    directory_sizes,
    model_directory,
    open_file,
    require_own_files,
)

SHARED = "3b" + "0" * 62


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """A snapshot of a cache of huggingface_hub: links into the blobs of the model, one of which
    leads on to those that all models share."""
    model = tmp_path / "hub" / "models--org--tiny"
    snapshot = model / "snapshots" / "abc"
    (snapshot / "nested").mkdir(parents=True)
    (model / "refs").mkdir()
    (model / "refs" / "main").write_text("abc")
    (model / "blobs").mkdir()
    (model / "blobs" / "one").write_text("{}")
    store = model.parent / "blobs" / SHARED[:2]
    store.mkdir(parents=True)
    (store / SHARED).write_bytes(b"tensors")
    (store.parent / ".huggingface-shared-blobs").write_text("1\n")
    (model / "blobs" / "two").symlink_to(f"../../blobs/3b/{SHARED}")
    (snapshot / "config.json").symlink_to("../../blobs/one")
    (snapshot / "nested" / "m.safetensors").symlink_to("../../../blobs/two")
    return snapshot


def test_the_blobs_of_a_cache_are_its_files(snapshot: Path) -> None:
    """A snapshot in a cache of huggingface_hub can be pushed as it is."""
    sizes = directory_sizes(snapshot)
    assert sizes == {"config.json": 2, "nested/m.safetensors": 7}
    require_own_files(snapshot, sizes)
    with open_file(snapshot, "nested/m.safetensors") as file:
        assert file.read() == b"tensors"


def test_the_folder_of_a_model_is_its_snapshot(snapshot: Path) -> None:
    """The folder that huggingface_hub makes for a model stands for the snapshot of its main branch;
    of a cache, or without that branch, what to name is said."""
    model = snapshot.parents[1]
    assert model_directory(model) == model_directory(snapshot) == snapshot
    for cache in (model.parent, model.parents[1]):
        with pytest.raises(WeightsError, match="is a cache of huggingface_hub") as caught:
            model_directory(cache)
        assert str(model) in str(caught.value.hint)
    (model / "refs" / "main").unlink()
    with pytest.raises(WeightsError, match="without a snapshot of main") as caught:
        model_directory(model)
    assert str(snapshot) in str(caught.value.hint)


@pytest.mark.parametrize("link", ["snapshots/abc", "snapshots"])
def test_a_snapshot_that_leads_elsewhere_is_not_the_model(snapshot: Path, link: str) -> None:
    """A link in the place of a snapshot, or of all of them, does not publish another directory,
    whether the snapshot is named or the model's folder."""
    model = snapshot.parents[1]
    private = model.with_name("private")
    (model / link).rename(private)
    (model / link).symlink_to(private)
    (private / "config.json").unlink(missing_ok=True)
    (snapshot / "config.json").unlink(missing_ok=True)
    (snapshot / "config.json").write_text("{}")
    for named in (model, snapshot):
        with pytest.raises(WeightsError, match=r"is no snapshot in .*private"):
            model_directory(named)


@pytest.mark.parametrize("main", ["../../private", "", "."])
def test_main_names_a_snapshot(snapshot: Path, main: str) -> None:
    """What the reference to main names is a snapshot of the model, and no other place."""
    model = snapshot.parents[1]
    (model / "refs" / "main").write_text(main)
    for place in (model.with_name("private"), model / "snapshots"):
        place.mkdir(exist_ok=True)
        (place / "config.json").write_text("{}")
    with pytest.raises(WeightsError, match=r"is no snapshot in|without a snapshot of main"):
        model_directory(model)


def test_a_name_that_cannot_be_shown_is_refused(tmp_path: Path) -> None:
    """No name of a file ends a line of ours, and so none is a command to the CI that shows it."""
    (tmp_path / "a\n::error::pwned\n.json").write_text("{}")
    with pytest.raises(WeightsError, match="which is no path in it") as caught:
        directory_sizes(tmp_path)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    "target", ["../../refs/main", "../other/secret", "../../blobs/../refs/main"]
)
def test_only_the_blobs_are(snapshot: Path, target: str) -> None:
    """What lies elsewhere in the cache, in another snapshot too, is not this snapshot's; nobody is
    told to remove it."""
    (snapshot.parent / "other").mkdir()
    (snapshot.parent / "other" / "secret").write_text("secret")
    (snapshot / "stray.json").symlink_to(target)

    with pytest.raises(WeightsError, match=r"stray\.json: a link to a file elsewhere") as caught:
        require_own_files(snapshot, ["stray.json"])
    assert f"cp -rL {snapshot} abc-copy" in str(caught.value.hint)
    assert "emove" not in str(caught.value.hint)


def test_blobs_that_lead_elsewhere_are_not_its_files(snapshot: Path, tmp_path: Path) -> None:
    """A link in the place of a blob opens no other directory, nor does a folder that has not the
    mark of huggingface_hub's shared blobs."""
    (tmp_path / "secret").write_text("secret")
    (snapshot.parents[2] / "blobs" / ".huggingface-shared-blobs").unlink()
    with pytest.raises(WeightsError, match=r"m\.safetensors: a link to a file elsewhere"):
        require_own_files(snapshot, ["nested/m.safetensors"])
    blob = snapshot.parents[1] / "blobs" / "one"
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    with pytest.raises(WeightsError, match=r"config\.json: a link to a file elsewhere"):
        require_own_files(snapshot, ["config.json"])


def test_what_leads_nowhere_is_told(snapshot: Path) -> None:
    """A download that broke off leaves links to nothing."""
    shutil.rmtree(snapshot.parents[2] / "blobs")
    assert directory_sizes(snapshot)["nested/m.safetensors"] == -1
    with pytest.raises(WeightsError, match="leads nowhere"):
        require_own_files(snapshot, ["nested/m.safetensors"])


def test_links_within_the_directory_are_files(tmp_path: Path) -> None:
    """A link to another file of the same checkpoint is that file."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "again.json").symlink_to("config.json")

    require_own_files(tmp_path, directory_sizes(tmp_path))


def test_what_changes_after_it_was_listed_is_not_opened(tmp_path: Path) -> None:
    """A file that becomes a link or a pipe after the look is refused, without waiting."""
    (tmp_path / "m.json").write_text("{}")
    require_own_files(tmp_path, ["m.json"])
    (tmp_path / "m.json").unlink()

    (tmp_path / "m.json").symlink_to("/etc/passwd")
    with pytest.raises(WeightsError, match="elsewhere"):
        open_file(tmp_path, "m.json")

    (tmp_path / "m.json").unlink()
    os.mkfifo(tmp_path / "m.json")
    with pytest.raises(WeightsError, match="not a regular file"):
        open_file(tmp_path, "m.json")


def test_hidden_links_stay_at_home(tmp_path: Path) -> None:
    """What is hidden is not looked at, wherever it leads."""
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / ".cache").symlink_to("/etc")
    (tmp_path / ".netrc").symlink_to("/etc/passwd")

    assert directory_sizes(tmp_path) == {"config.json": 2}
