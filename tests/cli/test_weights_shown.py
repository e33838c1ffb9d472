"""What `tpuflex weights` prints."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_prepare import OURS, TRUNCATED
from tpuflex.boot.places import weights_prefix
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.output import Output
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.weights_verify import run_verify
from tpuflex.errors import WeightsError
from tpuflex.gcp.weights_report import WeightsCheck, WeightsProblem

Captured = pytest.CaptureFixture[str]


class Stored:
    """A bucket of which this was found."""

    def __init__(self, beside: tuple[str, ...], problems: tuple[WeightsProblem, ...] = ()) -> None:
        self._check = WeightsCheck(OURS.sha256, OURS, problems, beside)

    def verify(self, _prefix: str, _extra: tuple[str, ...]) -> WeightsCheck:
        return self._check


@pytest.fixture
def cloud(stack: OpenStack) -> Cloud:
    """The cloud of a stack that names no source."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"source": None})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return Cloud(OpenStack(stack.project, stack.name, stack.file, settings), {})


def verify(cloud: Cloud, found: Stored, *, as_json: bool = False) -> None:
    vars(cloud)["weights"] = found
    run_verify(cloud, None, Output(json=as_json, verbose=False))


def test_what_is_beside_the_set_is_told(cloud: Cloud, capsys: Captured) -> None:
    """It is no damage, and a script finds it by name."""
    found = Stored(("old-1.safetensors", "old-2.safetensors"))
    verify(cloud, found)
    said = capsys.readouterr().out
    verify(cloud, found, as_json=True)
    document = json.loads(capsys.readouterr().out)

    assert said.startswith(f"{weights_prefix(cloud.stack.settings.model)} matches its manifest.")
    assert "no host reads (2 files, such as old-1.safetensors)" in said
    assert document["problems"] == []
    assert document["beside"] == ["old-1.safetensors", "old-2.safetensors"]


def test_damage_is_damage_whatever_is_beside(cloud: Cloud) -> None:
    """A file of the manifest that is wrong ends it; the others are not among the problems."""
    with pytest.raises(WeightsError, match="not as it should be") as caught:
        verify(cloud, Stored(("old.safetensors",), (TRUNCATED,)))

    assert "shard: size" in caught.value.message
    assert "old.safetensors" not in caught.value.message
