"""What a teardown says of weights that outlive the stack."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.prepare_weights import remember
from tpuflex.cli.shared_weights import (
    kept_line,
)
from tpuflex.cli.stack import OpenStack
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


def test_weights_that_were_pushed_from_here_are_the_stacks(cloud: Cloud) -> None:
    """Also where no slice was made for them yet."""
    remember(cloud, "5a" * 32)

    assert COMMAND in kept_line(cloud, KEPT, None)
    assert COMMAND not in kept_line(there_are(cloud, "5b" * 32), KEPT, None)  # pushed since
