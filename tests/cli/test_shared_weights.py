"""What a teardown says of weights that outlive the stack."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.prepare_weights import remember
from tpuflex.cli.shared_weights import (
    kept_image,
    kept_image_line,
    kept_line,
    note_weights_use,
)
from tpuflex.cli.stack import OpenStack
from tpuflex.errors import NotFoundError
from tpuflex.gcp import weights_usage
from tpuflex.gcp.weights_report import FoundManifest
from tpuflex.settings.model import WeightsSettings

PREFIX = "llm/models/huggingfacetb-smollm2-135m-instruct/1"
KEPT = {"place": f"gs://acme-models/{PREFIX}", "bytes": 2**30, "region": "us-east5"}
HERE = PlannedWeights("acme-models", PREFIX, "5a" * 32)
COMMAND = f"tpuflex weights rm {PREFIX}"


@pytest.fixture
def cloud(stack: OpenStack) -> Cloud:
    """The cloud of a stack whose weights are in gs://acme-models/llm."""
    weights = WeightsSettings(bucket="gs://acme-models/llm")
    model = stack.settings.model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return there_are(Cloud(replace(stack, settings=settings), {}), "5a" * 32)


def there_are(cloud: Cloud, sha256: str) -> Cloud:
    """``cloud`` with weights of this manifest in its bucket."""
    found = FoundManifest(sha256, None)
    vars(cloud)["weights"] = SimpleNamespace(find=lambda _prefix: found)
    return cloud


@pytest.mark.parametrize(
    ("served", "told"),
    [
        (HERE, True),
        (replace(HERE, prefix="other/models/tiny/1"), False),
        (replace(HERE, bucket="the-stacks-own"), False),
        (replace(HERE, manifest_sha256="5b" * 32), False),
        (replace(HERE, manifest_sha256=""), True),  # an older version, which served what it found
        (None, False),
    ],
)
def test_only_weights_of_the_stack_are_told_to_delete(
    cloud: Cloud, served: PlannedWeights | None, told: bool
) -> None:
    """A stack file that was changed after the last `up`, or never brought up, may name weights that
    only others serve: these are named with their price, and no command deletes them."""
    line = kept_line(cloud, KEPT, served)

    assert line.startswith(f"Kept in your bucket: gs://acme-models/{PREFIX}, 1.00 GiB, ")
    assert (COMMAND in line) is told


def test_an_image_that_stays_is_told_with_its_price(cloud: Cloud) -> None:
    """In each region that has it, with the command that removes it unless it is used."""
    far = {"place": "gs://far/images/sha256/6b", "bytes": 2**30, "region": "europe-west4"}
    kept = {"place": "gs://l/images/sha256/6b", "bytes": 2**30, "region": "us-east5"}
    line = kept_image_line({**kept, "copies": [far]})

    assert line.startswith("Kept in the library: the image gs://l/images/sha256/6b, 1.00 GiB, $")
    assert "; gs://far/images/sha256/6b, 1.00 GiB, " in line
    assert line.endswith("tpuflex weights rm images/sha256/6b")
    assert kept_image_line(None) == ""
    assert kept_image(cloud) is None  # this stack's comes from its registry


@pytest.mark.parametrize("gone", ["models/", "images/"])
def test_the_use_of_what_is_left_is_noted(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, gone: str
) -> None:
    """Weights that somebody removes in this moment keep the image's day from nothing."""
    settings = cloud.stack.settings
    serving = settings.serving.model_copy(update={"image_source": "library"})
    stack = replace(cloud.stack, settings=settings.model_copy(update={"serving": serving}))
    cloud = Cloud(stack, {})
    noted: list[str] = []

    def contents(prefix: str) -> str:
        if gone in prefix:
            raise NotFoundError("it is gone")
        return prefix

    vars(cloud)["weights"] = SimpleNamespace(contents=contents)
    vars(cloud)["timing"] = SimpleNamespace(wall=lambda: 0.0)
    monkeypatch.setattr(weights_usage, "note_use", lambda there, _day: noted.append(there))
    note_weights_use(cloud, lambda _line: None)
    kinds = ["models" if "models/" in each else "images" for each in noted]
    assert kinds == ["images" if gone == "models/" else "models"]


def test_weights_that_were_pushed_from_here_are_the_stacks(cloud: Cloud) -> None:
    """Also where no slice was made for them yet."""
    remember(cloud, "5a" * 32)

    assert COMMAND in kept_line(cloud, KEPT, None)
    assert COMMAND not in kept_line(there_are(cloud, "5b" * 32), KEPT, None)  # pushed since
