"""`tpuflex down --purge-weights`: what is there to purge, and what is said of weights that stay."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.weights.test_use import Policy, Slices
from tpuflex.boot.planned import PlannedWeights
from tpuflex.deploy.purge import kept_line, nothing_text, planned_purge
from tpuflex.errors import AccessError, ConflictError, NotFoundError
from tpuflex.settings.model import WeightsSettings
from tpuflex.stack.connection import Connection
from tpuflex.stack.stack import Stack
from tpuflex.weights.push_record import remember
from tpuflex.weights.stack_weights import StackWeights
from tpuflex.weights.stored_set import FoundManifest, SetObjects

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)


class NoBucket:
    """A bucket that is gone."""

    def contents(self, _prefix: str) -> None:
        raise NotFoundError("gs://gone does not exist")


def library_stack(stack: Stack) -> Connection:
    """The cloud of a stack whose file names the library."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"bucket": "library"})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return Connection(Stack(stack.project, stack.name, stack.file, settings), {})


def test_what_stays_is_told_by_its_place(stack: Stack) -> None:
    """The slice may have been made for other weights than the file names by now."""
    own, library = StackWeights(Connection(stack, {})), StackWeights(library_stack(stack))
    assert nothing_text(own) == "The stack file names no weights that outlive the stack."
    assert f"names gs://{library.bucket}/models/" in nothing_text(library)


def test_a_library_that_is_gone_holds_nothing_up(stack: Stack) -> None:
    """A slice that is billed goes, although its weights went first."""
    weights = StackWeights(library_stack(stack))
    vars(weights)["store"] = NoBucket()

    assert planned_purge(weights, None) is None


def files_without_manifest(weights: StackWeights, *hours: int) -> list[SimpleNamespace]:
    """Let the bucket have files without a manifest, written so many hours ago."""
    blobs = [
        SimpleNamespace(
            name=f"{number}.bin",
            generation=number,
            time_created=NOW - dt.timedelta(hours=ago),
            size=1,
            temporary_hold=None,
            event_based_hold=None,
        )
        for number, ago in enumerate(hours)
    ]
    there = SetObjects(
        SimpleNamespace(name=weights.bucket),
        weights.prefix,
        {blob.name: blob for blob in blobs},
        None,
    )
    vars(weights)["store"] = SimpleNamespace(contents=lambda _prefix: there)
    vars(weights.cloud)["now"] = lambda: NOW
    vars(weights.cloud)["tpu"] = Slices()
    vars(weights.cloud)["apis"] = lambda: SimpleNamespace(storage=Policy())
    return blobs


def served_by(weights: StackWeights) -> PlannedWeights:
    """The weights that the stack file names, as what the slice was made for."""
    return PlannedWeights(weights.bucket, weights.prefix, "")


@pytest.mark.parametrize(("hours", "goes"), [(1, False), (25, True)])
def test_a_push_that_may_be_under_way_is_left_alone(stack: Stack, hours: int, goes: bool) -> None:
    """Files without a manifest that were written within a day may be what a colleague pushes now;
    older ones of this stack go, unless a machine of somebody's copies into them."""
    weights = StackWeights(library_stack(stack))
    blobs, served = files_without_manifest(weights, hours), served_by(weights)

    if goes:
        removal = planned_purge(weights, served)
        assert removal is not None
        assert removal.files == tuple(blobs)
        vars(weights.cloud)["apis"] = lambda: SimpleNamespace(storage=Policy(held=()))
        with pytest.raises(AccessError, match=r"storage\.objects\.delete on the bucket is missing"):
            planned_purge(weights, served)  # before the stack is gone
    else:
        with pytest.raises(ConflictError, match="a push may be under way"):
            planned_purge(weights, served)


PREFIX = "llm/models/huggingfacetb-smollm2-135m-instruct/1"
KEPT = {"place": f"gs://acme-models/{PREFIX}", "bytes": 2**30, "region": "us-east5"}
HERE = PlannedWeights("acme-models", PREFIX, "5a" * 32)
COMMAND = f"tpuflex weights rm {PREFIX}"


@pytest.fixture
def weights(stack: Stack) -> StackWeights:
    """Those of a stack that are in gs://acme-models/llm."""
    bucket = WeightsSettings(bucket="gs://acme-models/llm")
    model = stack.settings.model.model_copy(update={"weights": bucket})
    settings = stack.settings.model_copy(update={"model": model})
    return there_are(Connection(replace(stack, settings=settings), {}), "5a" * 32)


def there_are(cloud: Connection, sha256: str) -> StackWeights:
    """The weights of the stack of ``cloud``, with this manifest."""
    found = FoundManifest(sha256, None)
    weights = StackWeights(cloud)
    vars(weights)["store"] = SimpleNamespace(find=lambda _prefix: found)
    return weights


@pytest.mark.parametrize(
    ("served", "told"),
    [
        (HERE, True),
        (replace(HERE, prefix="other/models/tiny/1"), False),
        (replace(HERE, bucket="the-stacks-own"), False),
        (replace(HERE, manifest_sha256="5b" * 32), False),
        (None, False),
    ],
)
def test_only_weights_of_the_stack_are_told_to_delete(
    weights: StackWeights, served: PlannedWeights | None, told: bool
) -> None:
    """A stack file that was changed after the last `up`, or never brought up, may name weights that
    only others serve: these are named with their price, and no command deletes them."""
    line = str(kept_line(weights, KEPT, served))

    assert line.startswith(f"Kept in your bucket: gs://acme-models/{PREFIX}, 1.00 GiB, ")
    assert (COMMAND in line) is told


def test_weights_that_were_pushed_from_here_are_the_stacks(weights: StackWeights) -> None:
    """Also where no slice was made for them yet."""
    remember(weights, "5a" * 32)

    assert COMMAND in str(kept_line(weights, KEPT, None))
    assert COMMAND not in str(
        kept_line(there_are(weights.cloud, "5b" * 32), KEPT, None)
    )  # pushed since
