"""Copies to further regions of a stack: what they cost, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.examined import Doctor
from tests.cli.regions import (
    FAR,
    HOME,
    LIBRARY,
    listed,
    prefix_of,
    push,
    remove,
    tiny_checkpoint,
    two_regions,
)
from tpuflex.cli.region_weights import filling_texts, weights_set
from tpuflex.cli.weights_elsewhere import elsewhere, weights_in
from tpuflex.operate.weights_choice import Trust, Weights, to_copy


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


def test_the_cheapest_of_other_regions_is_copied_from(doctor: Doctor, checkpoint: Path) -> None:
    """Not the first by name: from Tokyo the network costs more than from Iowa."""
    push(doctor, checkpoint)
    for name in listed(doctor, HOME):
        remove(doctor, HOME, name)
    model = doctor.stack.settings.model
    for region in ("asia-northeast1", "us-central1"):
        bucket = LIBRARY.bucket("tpuflex-dev", region)
        labels = {"tpuflex-owner": LIBRARY.owner}
        body = {"name": bucket, "location": region.upper(), "labels": labels}
        doctor.call("POST", "storage/v1/b?project=tpuflex-dev", body)
        weights_in(doctor.cloud, bucket).push(
            checkpoint,
            prefix_of(doctor),
            model=model.name,
            revision=model.weights.revision,
            progress=lambda _done, _total: None,
        )
    said: list[str] = []
    found = elsewhere(doctor.cloud, said.append)
    assert said == []
    assert [each.region for each in found] == ["us-central1", "asia-northeast1", "europe-west4"]
    origin = to_copy(Weights("x", "dev", None, False, found), Trust(pinned=found[-1].sha256))
    assert origin == found[0]
