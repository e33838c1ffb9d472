"""`tpuflex down --purge-weights`: what is there to purge."""

from __future__ import annotations

import datetime as dt
from types import SimpleNamespace

import pytest

from tests.cli.test_weights_uses import Policy, Slices
from tpuflex.boot.places import weights_prefix
from tpuflex.boot.planned import PlannedWeights
from tpuflex.cli.cloud import Cloud
from tpuflex.cli.stack import OpenStack
from tpuflex.cli.steps.down_purge import nothing_text, planned_purge
from tpuflex.errors import AccessError, ConflictError, NotFoundError
from tpuflex.gcp.weights_objects import SetObjects

NOW = dt.datetime(2026, 11, 23, 12, tzinfo=dt.UTC)


class NoBucket:
    """A bucket that is gone."""

    def contents(self, _prefix: str) -> None:
        raise NotFoundError("gs://gone does not exist")


def library_stack(stack: OpenStack) -> Cloud:
    """The cloud of a stack whose file names the library."""
    model = stack.settings.model
    weights = model.weights.model_copy(update={"bucket": "library"})
    model = model.model_copy(update={"weights": weights})
    settings = stack.settings.model_copy(update={"model": model})
    return Cloud(OpenStack(stack.project, stack.name, stack.file, settings), {})


def test_what_stays_is_told_by_its_place(stack: OpenStack) -> None:
    """The slice may have been made for other weights than the file names by now."""
    own, library = Cloud(stack, {}), library_stack(stack)
    assert nothing_text(own) == "The stack file names no weights that outlive the stack."
    assert f"names gs://{library.bucket}/models/" in nothing_text(library)


def test_a_library_that_is_gone_holds_nothing_up(stack: OpenStack) -> None:
    """A slice that is billed goes, although its weights went first."""
    cloud = library_stack(stack)
    vars(cloud)["weights"] = NoBucket()

    assert planned_purge(cloud, None) is None


def files_without_manifest(cloud: Cloud, *hours: int) -> list[SimpleNamespace]:
    """Let the bucket of ``cloud`` have files without a manifest, written so many hours ago."""
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
    prefix = weights_prefix(cloud.stack.settings.model)
    there = SetObjects(
        SimpleNamespace(name=cloud.bucket), prefix, {blob.name: blob for blob in blobs}, None
    )
    vars(cloud)["weights"] = SimpleNamespace(contents=lambda _prefix: there)
    vars(cloud)["timing"] = SimpleNamespace(wall=NOW.timestamp)
    vars(cloud)["tpu"] = Slices()
    vars(cloud)["apis"] = lambda: SimpleNamespace(storage=Policy())
    return blobs


def served_by(cloud: Cloud) -> PlannedWeights:
    """The weights that the stack file names, as what the slice was made for."""
    return PlannedWeights(cloud.bucket, weights_prefix(cloud.stack.settings.model), "")


@pytest.mark.parametrize(("hours", "goes"), [(1, False), (25, True)])
def test_a_push_that_may_be_under_way_is_left_alone(
    stack: OpenStack, hours: int, goes: bool
) -> None:
    """Files without a manifest that were written within a day may be what a colleague pushes now;
    older ones of this stack go, unless a machine of somebody's copies into them."""
    cloud = library_stack(stack)
    blobs, served = files_without_manifest(cloud, hours), served_by(cloud)

    if goes:
        removal = planned_purge(cloud, served)
        assert removal is not None
        assert removal.files == tuple(blobs)
        vars(cloud)["apis"] = lambda: SimpleNamespace(storage=Policy(held=()))
        with pytest.raises(AccessError, match=r"storage\.objects\.delete on the bucket is missing"):
            planned_purge(cloud, served)  # before the stack is gone
    else:
        with pytest.raises(ConflictError, match="a push may be under way"):
            planned_purge(cloud, served)
