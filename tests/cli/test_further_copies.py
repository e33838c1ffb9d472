"""Copies to further regions of a stack: what they cost, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import (
    FAR,
    prefix_of,
    push,
    remove,
    tiny_checkpoint,
    two_regions,
)
from tpuflex.cli.region_weights import filling_texts, weights_set


@pytest.fixture
def doctor(project: Path, tmp_path: Path) -> Iterator[Doctor]:
    """A stack in two regions."""
    with two_regions(project, tmp_path) as found:
        yield found


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Weights of a few bytes."""
    return tiny_checkpoint(tmp_path / "tiny")


def test_what_is_copied_anew_is_priced(
    doctor: Doctor, checkpoint: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--again copies all of it, and damage only what is damaged; both say what the network
    costs."""
    push(doctor, checkpoint)
    cloud = doctor.cloud
    found = cloud.weights.find(prefix_of(doctor))
    assert found is not None
    wanted = weights_set(cloud, found.sha256)
    capsys.readouterr()
    push(doctor, checkpoint, again=True)
    again = capsys.readouterr().err
    remove(doctor, FAR, f"{prefix_of(doctor)}/model.safetensors")
    (damaged,) = filling_texts(doctor.cloud, wanted)
    push(doctor, None)

    text = "weights: 0.00 GB are copied from gs://"
    assert f"to gs://{FAR}; nothing passes through here, and the network costs $0.01" in again
    assert text in again
    assert "is copied anew; " + text in damaged
    assert "the network costs $0.01 at most" in damaged
    assert filling_texts(doctor.cloud, wanted) == []
